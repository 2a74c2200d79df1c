;; Its alloc answers with -16, which is an address far outside.
;; step input='x' -> trap: alloc: the range that it gave lies outside the memory: found 1 bytes at 4294967280
;; step -> trap: alloc: the range that it gave lies outside the memory: found 0 bytes at 4294967280
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const -16))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
