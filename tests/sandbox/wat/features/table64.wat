;; Memory64: a table with 64-bit indexes.
;; refused: a table is 64-bit (memory64 is not allowed)
;; refused: memory64 must be enabled for 64-bit tables
(module
  (table i64 1 funcref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
