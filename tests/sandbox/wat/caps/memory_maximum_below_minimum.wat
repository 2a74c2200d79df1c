;; A memory whose maximum is below its minimum.
;; refused: size minimum must not be greater than maximum
(module
  (memory (export "memory") 2 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
