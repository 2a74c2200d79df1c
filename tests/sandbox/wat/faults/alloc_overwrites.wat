;; Its alloc answers with the place of its own data: what it loses is its own.
;; step input='mine' -> ok 'mine'
;; step input='me' -> ok 'meur'
(module
  (memory (export "memory") 1)
  (data (i32.const 64) "yours")
  (func (export "alloc") (param i32) (result i32) (i32.const 64))
  (func (export "step") (param i32 i32) (result i32 i32) (i32.const 64) (i32.const 4)))
