;; Its panic address is -4, which is the last one of all: an address has no sign.
;; step -> trap: step: an unreachable instruction is reached
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i32 (i32.const -4))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
