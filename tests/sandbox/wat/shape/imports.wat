;; Imports of a function, a global and a table: each is named.
;; refused: the module imports the function "fd_write" from "wasi_snapshot_preview1": expected no imports (a module gets everything in its input and asks for effects in its output)
;; refused: the module imports the global "counter" from "env": expected no imports (a module gets everything in its input and asks for effects in its output)
;; refused: the module imports the table "functions" from "env": expected no imports (a module gets everything in its input and asks for effects in its output)
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $write (param i32 i32 i32 i32) (result i32)))
  (import "env" "counter" (global i32))
  (import "env" "functions" (table 1 funcref))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
