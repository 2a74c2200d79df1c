;; It has no entrypoint.
;; refused: export "step": expected a function (i32, i32) -> (i32, i32) or (i32, i32, i32) -> () or (i32, i32) -> i64, found no such export
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024)))
