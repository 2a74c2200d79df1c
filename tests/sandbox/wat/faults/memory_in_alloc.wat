;; Its alloc takes all memory and then answers with the failed grow.
;; step input='abc' -> memory: alloc: the range that it gave lies outside the memory, with all 4194304 bytes of memory in use: found 3 bytes at 4294967295 [64 pages]
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32)
    (loop $again
      (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    (i32.const -1))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
