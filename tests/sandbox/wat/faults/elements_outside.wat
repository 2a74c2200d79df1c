;; Its elements do not fit, which shows when it is instantiated.
;; step input='x' -> trap: instantiate: a table access is out of bounds [0 pages]
(module
  (memory (export "memory") 1)
  (table 1 funcref)
  (elem (i32.const 1) func $step)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func $step (export "step") (param i32 i32) (result i64) (i64.const 0)))
