;; Names may be long, and are never part of a fault's words.
;; step -> trap: step: an unreachable instruction is reached
(module
  (memory (export "memory") 1)
  (global (export "{50000 * g}") i32 (i32.const 0))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func ${50000 * f} (export "{50000 * f}") unreachable)
  (func (export "step") (param i32 i32) (result i64) (call ${50000 * f}) (i64.const 0)))
