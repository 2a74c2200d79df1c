;; A memory that begins with more than there are addresses.
;; refused: the module's memory begins larger than a step may have: expected at most 16384 pages of 65536 bytes, found 65537
;; refused: memory size must be at most 0x10000 65536-byte pages
(module
  (memory (export "memory") 65537)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
