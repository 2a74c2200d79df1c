;; Its entrypoint is a global.
;; refused: export "step": expected a function (i32, i32) -> (i32, i32) or (i32, i32, i32) -> () or (i32, i32) -> i64, found a global
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (global (export "step") i32 (i32.const 0)))
