;; Its panic address is one global of several, exported under two names.
;; step -> trap: step: panicked: eggs
(module
  (memory (export "memory") 1)
  (global v128 (v128.const i64x2 1 2))
  (global (mut i32) (i32.const 1))
  (global $first i64 (i64.const -9223372036854775808))
  (global $here (export "aos_panic") (export "here") i32 (i32.const 64))
  (global i32 (i32.const 128))
  (data (i32.const 64) "\04\00\00\00eggs")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
