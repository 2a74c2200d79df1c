;; Recursion with a thousand locals alive in each frame.
;; step -> stack: step: the guest's stack is used up
(module
  (func $wide (param i64) (result i64) (local {1000 * i64 })
    {1000 * (local.set # (i64.load (i32.const #))) }
    (drop (call $wide (local.get 999)))
    {999 * (local.get #) (i64.add (local.get 1000)) (local.set 1000) } (local.get 1000))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (drop (call $wide (i64.const 1)))
    (i64.const 0)))
