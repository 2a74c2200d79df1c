;; Two functions that call each other without end.
;; step -> stack: step: the guest's stack is used up
(module
  (func $ping (param i64) (result i64) (i64.add (call $pong (local.get 0)) (i64.const 1)))
  (func $pong (param i64) (result i64) (i64.add (call $ping (local.get 0)) (i64.const 1)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (call $ping (i64.const 1))
    (drop)
    (i64.const 0)))
