;; Its panic address lies at the end of the memory, where not even a length has room.
;; step -> trap: step: an unreachable instruction is reached
;; grown -> trap: grown: an unreachable instruction is reached
;; said -> trap: said: panicked: !
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i32 (i32.const 65533))
  (data (i32.const 65533) "\01\00\00")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable)
  (func (export "grown") (param i32 i32) (result i64)
    (i32.store8 (i32.const 65533) (i32.const 0)) (drop (memory.grow (i32.const 1))) unreachable)
  (func (export "said") (param i32 i32) (result i64)
    (drop (memory.grow (i32.const 1))) (i32.store8 (i32.const 65537) (i32.const 33)) unreachable))
