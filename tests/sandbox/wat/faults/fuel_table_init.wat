;; Copies from an element segment for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (table 1000 funcref)
  (elem $e func {100 * 0 })
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (table.init 0 $e (i32.const 0) (i32.const 0) (i32.const 100)) (br $again))
    (unreachable)))
