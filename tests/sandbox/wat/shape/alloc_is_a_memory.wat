;; Its export "alloc" is the memory.
;; refused: export "alloc": expected a function (i32) -> i32, found a memory
(module
  (memory (export "memory") 1)
  (export "alloc" (memory 0))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
