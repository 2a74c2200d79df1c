;; A table may allow itself to grow past the cap; it is told that it cannot.
;; step -> ok u32:-1
(module
  (table 1 4294967295 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (i32.store (i32.const 0) (table.grow 0 (ref.null func) (i32.const 65536)))
    (i64.const 4)))
