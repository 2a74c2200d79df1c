;; One table more than a module may have.
;; refused: the module has too many tables: expected at most 8, found 9
(module
  {9 * (table 1 funcref)}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
