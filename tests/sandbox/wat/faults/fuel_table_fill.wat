;; Fills a table for ever: each element costs.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (table 1000 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (table.fill 0 (i32.const 0) (ref.null func) (i32.const 1000)) (br $again))
    (unreachable)))
