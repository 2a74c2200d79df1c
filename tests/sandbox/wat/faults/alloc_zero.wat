;; Its alloc answers with 0, which is an address like any other.
;; step input='hello' -> ok 'hello'
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 0))
  (func (export "step") (param i32 i32) (result i32 i32) (local.get 0) (local.get 1)))
