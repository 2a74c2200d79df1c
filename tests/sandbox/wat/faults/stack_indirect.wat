;; A function that calls itself through a table without end.
;; step -> stack: step: the guest's stack is used up
(module
  (table 1 funcref)
  (elem (i32.const 0) $again)
  (func $again (call_indirect (i32.const 0)) (call_indirect (i32.const 0)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (call $again)
    (i64.const 0)))
