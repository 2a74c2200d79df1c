;; Threads: a shared memory.
;; refused: a memory is shared (threads are not allowed)
;; refused: threads must be enabled for shared memories
(module
  (memory (export "memory") 1 1 shared)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
