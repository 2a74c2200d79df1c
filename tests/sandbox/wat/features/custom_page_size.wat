;; Custom page sizes: pages of one byte.
;; refused: a memory is of custom page size (these are not allowed)
;; refused: the custom page sizes proposal must be enabled
(module
  (memory (export "memory") 1 (pagesize 1))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
