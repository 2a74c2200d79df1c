;; Its panic address is a float, so it is none.
;; step -> trap: step: an unreachable instruction is reached
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") f32 (f32.const 64))
  (data (i32.const 64) "\04\00\00\00eggs")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
