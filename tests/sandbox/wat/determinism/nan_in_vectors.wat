;; A NaN that vector arithmetic makes is the canonical one in each lane.
;; step -> ok 0x0000c07f0000c07f0000c07f0000c07f
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (v128.store (i32.const 0)
      (f32x4.div (v128.const f32x4 0 0 -nan:0x123456 0) (v128.const f32x4 0 -0 1 nan:0x200001)))
    (i64.const 16)))
