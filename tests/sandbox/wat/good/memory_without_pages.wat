;; A memory may have no pages; then there is no room for an input.
;; step -> ok 0x [0 pages]
;; step input='x' -> trap: alloc: the range that it gave lies outside the memory: found 1 bytes at 0 [0 pages]
(module
  (memory (export "memory") 0)
  (func (export "alloc") (param i32) (result i32) (i32.const 0))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
