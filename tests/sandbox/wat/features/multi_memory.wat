;; Several memories.
;; refused: the module has several memories: expected one, found 2
;; refused: the engine does not take the module: multiple memories
(module
  (memory 1)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
