;; Says words in `alloc` and traps there.
;; step -> trap: alloc: panicked: no
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i32 (i32.const 64))
  (func (export "alloc") (param i32) (result i32)
    (i64.store (i32.const 64) (i64.const 0x6f6e00000002)) unreachable)
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
