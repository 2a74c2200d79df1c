;; Its alloc traps.
;; step -> trap: alloc: an unreachable instruction is reached
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) unreachable)
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
