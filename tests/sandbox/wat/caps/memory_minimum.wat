;; A memory that begins with one page more than any step may have.
;; refused: the module's memory begins larger than a step may have: expected at most 16384 pages of 65536 bytes, found 16385
(module
  (memory (export "memory") 16385)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
