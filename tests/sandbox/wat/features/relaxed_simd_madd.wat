;; Relaxed SIMD: a fused multiplication, rounded once or twice.
;; refused: relaxed SIMD support is not enabled
(module
  (func (param v128 v128 v128) (result v128)
    (f32x4.relaxed_madd (local.get 0) (local.get 1) (local.get 2)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
