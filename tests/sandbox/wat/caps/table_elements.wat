;; A table that begins with one element more than it may have.
;; refused: a table begins too large: expected at most 65536 elements, found 65537
(module
  (table 65537 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
