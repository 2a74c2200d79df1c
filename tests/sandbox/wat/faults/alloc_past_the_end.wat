;; Its alloc answers with the first byte after the memory: room for nothing.
;; step input='x' -> trap: alloc: the range that it gave lies outside the memory: found 1 bytes at 65536
;; step -> ok 0x
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
