;; Exceptions: a reference to one.
;; refused: value type 0x69 belongs to no allowed feature
;; refused: exception refs not supported without the exception handling feature
(module
  (func (param exnref))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
