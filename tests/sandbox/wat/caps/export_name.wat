;; The name of an export is longer than the engine takes.
;; refused: string size out of bounds
(module
  (func (export "{100001 * x}"))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
