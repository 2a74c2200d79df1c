;; Minimum and maximum of zeros and NaNs, and rounding to even, are as the specification says.
;; step -> ok 0x000000800000c07f00000040
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (f32.store (i32.const 0) (f32.min (f32.const 0) (f32.const -0)))
    (f32.store (i32.const 4) (f32.max (f32.const nan:0x200001) (f32.const 1)))
    (f32.store (i32.const 8) (f32.nearest (f32.const 2.5)))
    (i64.const 12)))
