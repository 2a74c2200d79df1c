;; Imports a tag, which belongs to exceptions.
;; refused: import kind 4 belongs to no allowed feature
;; refused: exceptions
(module
  (import "env" "oops" (tag))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
