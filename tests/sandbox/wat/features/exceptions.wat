;; Exceptions: a tag, and a throw of it.
;; refused: section 13 belongs to no allowed feature
;; refused: exceptions proposal not enabled
(module
  (tag $oops)
  (func (throw $oops))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
