;; Copies from a data segment for ever.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (data $d "{1000 * x}")
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1000)) (br $again))
    (unreachable)))
