;; More parameters of one function than the engine takes.
;; refused: function params size is out of bounds
(module
  (func (param {1001 * i32 }))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
