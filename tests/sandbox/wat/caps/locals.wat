;; One local more than a function may have.
;; refused: function 0 has too many locals: expected at most 1024, found 1025
(module
  (func (local {1025 * i32 }))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
