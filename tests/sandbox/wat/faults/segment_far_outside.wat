;; Its data lies at the last address.
;; step -> trap: instantiate: a memory access is out of bounds [0 pages]
(module
  (data (i32.const -1) "x")
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
