;; Its panic address is 0, as good as any other.
;; step -> trap: step: panicked: zero
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i32 (i32.const 0))
  (data (i32.const 0) "\04\00\00\00zero")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
