;; Function references: a table whose elements begin with a value.
;; refused: a table has an initial value (function references are not allowed)
;; refused: tables with expression initializers require the function-references proposal
(module
  (table 1 funcref (ref.null func))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
