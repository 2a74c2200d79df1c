;; Its export "memory" is a global.
;; refused: export "memory": expected a memory, found a global
(module
  (memory 1)
  (global (export "memory") i32 (i32.const 0))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
