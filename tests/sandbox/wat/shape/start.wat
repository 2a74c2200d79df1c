;; A start function, which would run before anything else.
;; refused: the module has a start function: expected none (nothing runs before the entrypoint; link as a reactor, without _start)
(module
  (func $begin)
  (start $begin)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
