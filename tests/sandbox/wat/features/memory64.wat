;; Memory64: a memory with 64-bit addresses.
;; refused: a memory is 64-bit (memory64 is not allowed)
;; refused: memory64 must be enabled for 64-bit memories
(module
  (memory (export "memory") i64 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
