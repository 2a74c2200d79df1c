;; A NaN that is only moved keeps its bits; minus, copysign and loads are moves, arithmetic is none.
;; step input=0x0100efbeaddef4ff -> ok 0x0100efbeaddef4ff0100efbeaddef47f000000000000f87f
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (f64.store (i32.const 0) (f64.load (local.get 0)))
    (f64.store (i32.const 8) (f64.neg (f64.load (local.get 0))))
    (f64.store (i32.const 16) (f64.sqrt (f64.load (local.get 0))))
    (i64.const 24)))
