;; Counts its calls in globals of each type: always the first.
;; step -> ok 0x0200000003000000000000000000803f0100000000000000
(module
  (global $i (mut i32) (i32.const 1))
  (global $l (mut i64) (i64.const 2))
  (global $f (export "f") (mut f32) (f32.const 1))
  (global $r (mut funcref) (ref.null func))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func $step (export "step") (param i32 i32) (result i64)
    (global.set $i (i32.add (global.get $i) (i32.const 1)))
    (global.set $l (i64.add (global.get $l) (i64.const 1)))
    (i32.store (i32.const 0) (global.get $i))
    (i64.store (i32.const 4) (global.get $l))
    (f32.store (i32.const 12) (global.get $f))
    (global.set $f (f32.const 9))
    (i64.store (i32.const 16) (i64.extend_i32_u (ref.is_null (global.get $r))))
    (global.set $r (ref.func $step))
    (i64.const 24)))
