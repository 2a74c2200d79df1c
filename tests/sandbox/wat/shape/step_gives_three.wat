;; Its entrypoint gives three values.
;; refused: export "step": expected a function (i32, i32) -> (i32, i32) or (i32, i32, i32) -> () or (i32, i32) -> i64, found a function (i32, i32) -> (i32, i32, i32)
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i32 i32 i32)
    (i32.const 0) (i32.const 0) (i32.const 0)))
