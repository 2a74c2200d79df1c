;; Its alloc takes another type.
;; refused: export "alloc": expected a function (i32) -> i32, found a function (i64) -> i32
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i64) (result i32) (i32.const 0))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
