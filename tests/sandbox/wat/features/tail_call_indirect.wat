;; Tail calls: one through a table.
;; refused: tail calls support is not enabled
(module
  (table 1 funcref)
  (func (return_call_indirect (i32.const 0)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
