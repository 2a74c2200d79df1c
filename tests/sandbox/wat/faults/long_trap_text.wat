;; Traps below functions with names of fifty thousand letters: only the engine's text knows of them.
;; step -> trap: step: an unreachable instruction is reached
(module
  (func ${50000 * a} (call ${50000 * b}))
  (func ${50000 * b} unreachable)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (call ${50000 * a})
    (i64.const 0)))
