;; Imports its memory.
;; refused: the module imports the memory "memory" from "env": expected no imports (a module gets everything in its input and asks for effects in its output)
(module
  (import "env" "memory" (memory 1))
  (export "memory" (memory 0))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
