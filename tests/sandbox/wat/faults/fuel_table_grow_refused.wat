;; Asks for elements that it cannot have for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (table 1 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (drop (table.grow 0 (ref.null func) (i32.const -1))) (br $again))
    (unreachable)))
