;; Relaxed SIMD: an instruction that may answer differently on another machine.
;; refused: relaxed SIMD support is not enabled
(module
  (func (param v128 v128) (result v128)
    (i8x16.relaxed_swizzle (local.get 0) (local.get 1)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
