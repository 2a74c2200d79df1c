;; Divides and takes roots for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (local $x f64)
    (loop $again (local.set $x (f64.sqrt (f64.div (local.get $x) (f64.const 3)))) (br $again))
    (unreachable)))
