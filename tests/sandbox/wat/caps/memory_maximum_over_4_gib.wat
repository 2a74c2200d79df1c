;; A memory that may grow to more than there are addresses.
;; refused: memory size must be at most 0x10000 65536-byte pages
(module
  (memory (export "memory") 1 65537)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
