;; Traps in a function whose name would colour a terminal.
;; step -> trap: step: an unreachable instruction is reached
(module
  (func $"\1b[31m\nred" unreachable)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (call $"\1b[31m\nred")
    (i64.const 0)))
