;; Copies a page of memory over itself for ever: each byte costs.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (memory.copy (i32.const 0) (i32.const 1) (i32.const 65535)) (br $again))
    (unreachable)))
