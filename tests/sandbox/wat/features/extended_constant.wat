;; Extended constant expressions: an initial value that is computed.
;; refused: an initial value is computed (extended constants are not allowed)
(module
  (global i32 (i32.add (i32.const 1) (i32.const 2)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
