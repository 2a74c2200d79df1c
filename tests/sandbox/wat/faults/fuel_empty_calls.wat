;; Calls without end, one after the other.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (func $nothing)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (call $nothing) (br $again))
    (unreachable)))
