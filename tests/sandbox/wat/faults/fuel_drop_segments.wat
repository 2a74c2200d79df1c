;; Drops its segments for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (table 1 funcref)
  (elem $e func 0)
  (data $d "x")
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (data.drop $d) (elem.drop $e) (br $again))
    (unreachable)))
