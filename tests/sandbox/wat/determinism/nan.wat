;; A NaN that arithmetic makes is the canonical one, whatever NaN it is made from.
;; step input=0x0100efbeaddef4ff -> ok 0x000000000000f87f0000c07f
;; step input=0x000000000000f07f -> ok 0x000000000000f07f000080ff
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param $pointer i32) (param i32) (result i64)
    (f64.store (i32.const 0)
      (f64.add (f64.load (local.get $pointer)) (f64.const 1)))
    (f32.store (i32.const 8)
      (f32.mul (f32.demote_f64 (f64.load (local.get $pointer))) (f32.const -1)))
    (i64.const 12)))
