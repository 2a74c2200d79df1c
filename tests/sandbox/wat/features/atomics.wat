;; Threads: an atomic instruction, on a memory that is not shared.
;; refused: threads support is not enabled
(module
  (func (drop (i32.atomic.load (i32.const 0))))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
