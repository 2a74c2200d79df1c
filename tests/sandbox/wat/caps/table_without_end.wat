;; A table that begins with four billion elements.
;; refused: a table begins too large: expected at most 65536 elements, found 4294967295
(module
  (table 4294967295 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
