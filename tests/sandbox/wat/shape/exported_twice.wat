;; Two exports of one name: the engine refuses it.
;; refused: duplicate export name `step` already defined
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0))
  (export "step" (func 1)))
