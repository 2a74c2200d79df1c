;; Its memory is exported as "mem".
;; refused: export "memory": expected a memory, found no such export
(module
  (memory (export "mem") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
