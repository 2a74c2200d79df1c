;; An export of a function that is not there.
;; refused: an export names a function that is not there
;; refused: unknown function 9
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0))
  (export "more" (func 9)))
