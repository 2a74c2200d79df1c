;; Extended constant expressions: the place of a data segment is computed.
;; refused: an initial value is computed (extended constants are not allowed)
(module
  (data (i32.sub (i32.const 9) (i32.const 2)) "x")
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
