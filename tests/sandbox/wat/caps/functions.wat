;; More functions than a module may declare.
;; refused: the module declares more than 400000 entries
(module
  {400001 * (func)}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
