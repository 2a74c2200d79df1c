;; Recursion without end in alloc.
;; step -> stack: alloc: the guest's stack is used up
(module
  (memory (export "memory") 1)
  (func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))
  (func (export "alloc") (param i32) (result i32) (call $deep (local.get 0)))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
