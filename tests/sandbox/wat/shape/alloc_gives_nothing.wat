;; Its alloc gives nothing.
;; refused: export "alloc": expected a function (i32) -> i32, found a function (i32) -> ()
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
