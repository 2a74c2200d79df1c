;; Grows the memory by nothing for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (drop (memory.grow (i32.const 0))) (br $again))
    (unreachable)))
