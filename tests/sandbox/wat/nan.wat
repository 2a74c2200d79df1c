;; Returns the eight bytes of a NaN that arithmetic makes from an odd NaN.
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param $pointer i32) (param i32) (result i64)
    (f64.store (i32.const 0)
      (f64.add (f64.load (local.get $pointer)) (f64.const 1)))
    (f32.store (i32.const 8)
      (f32.mul (f32.demote_f64 (f64.load (local.get $pointer))) (f32.const -1)))
    (i64.const 12)))
