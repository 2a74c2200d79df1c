;; Imports a global that others may change.
;; refused: the module imports the global "clock" from "env": expected no imports (a module gets everything in its input and asks for effects in its output)
(module
  (import "env" "clock" (global (mut i64)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
