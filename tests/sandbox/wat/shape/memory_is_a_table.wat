;; Its export "memory" is a table.
;; refused: export "memory": expected a memory, found a table
(module
  (memory 1)
  (table (export "memory") 1 funcref)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
