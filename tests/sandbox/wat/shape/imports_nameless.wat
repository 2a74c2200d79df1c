;; Imports something without a name from somewhere without a name.
;; refused: the module imports the function "" from "": expected no imports (a module gets everything in its input and asks for effects in its output)
(module
  (import "" "" (func))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
