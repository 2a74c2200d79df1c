;; It has no alloc.
;; refused: export "alloc": expected a function (i32) -> i32, found no such export
(module
  (memory (export "memory") 1)
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
