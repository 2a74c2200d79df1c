;; The remainder of the smallest number by -1 is 0, and no trap.
;; step -> ok 0x0000000000000000
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (i64.store (i32.const 0) (i64.rem_s (i64.const 0x8000000000000000) (i64.const -1)))
    (i64.const 8)))
