;; Its alloc answers with the size that it was asked for.
;; step input=0x07*32768 -> ok 0x07*32768
;; step input=0x07*32769 -> trap: alloc: the range that it gave lies outside the memory: found 32769 bytes at 32769
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (local.get 0))
  (func (export "step") (param i32 i32) (result i32 i32) (local.get 0) (local.get 1)))
