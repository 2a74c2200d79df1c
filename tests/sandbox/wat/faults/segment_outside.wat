;; Its data does not fit, which shows when it is instantiated.
;; step input='x' -> trap: instantiate: a memory access is out of bounds [0 pages]
(module
  (memory (export "memory") 1)
  (data (i32.const 65535) "ab")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
