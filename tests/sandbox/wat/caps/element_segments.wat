;; More element segments than the engine takes.
;; refused: element segments count exceeds limit of 100000
(module
  {100001 * (elem func)}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
