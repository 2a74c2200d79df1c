;; The names of an import are longer than the engine takes; no problem of ours quotes more than its beginning.
;; refused: the module imports the function "yyyyyyyyyyyyyyyyyyyy
;; refused: string size out of bounds
(module
  (import "{100001 * x}" "{100001 * y}" (func))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
