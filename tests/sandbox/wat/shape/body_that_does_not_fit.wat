;; A body whose instructions do not fit their types: the engine checks each.
;; refused: type mismatch
(module
  (func (result i32) i32.add)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
