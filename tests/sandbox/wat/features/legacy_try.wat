;; Exceptions in their older form.
;; refused: legacy_exceptions feature required for try instruction
(module
  (func try catch_all end)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
