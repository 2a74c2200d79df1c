;; Its panic address is an i64, so it is none.
;; step -> trap: step: an unreachable instruction is reached
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i64 (i64.const 64))
  (data (i32.const 64) "\04\00\00\00eggs")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
