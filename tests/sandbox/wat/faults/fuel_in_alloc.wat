;; A loop without end in alloc, which pays from the same fuel.
;; step fuel=100000 -> fuel: alloc: all 100000 units of fuel are used
;; step input='x' fuel=1 -> fuel: alloc: all 1 units of fuel are used
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (loop $again (br $again)) unreachable)
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
