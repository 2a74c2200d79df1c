;; More results of one function than the engine takes.
;; refused: function returns size is out of bounds
(module
  (type (func (result {1001 * i32 })))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
