;; Returns its input, in the packed form. Grows for inputs that do not fit.
;; step -> ok 0x [2 pages]
;; step input='hello' -> ok 'hello' [2 pages]
;; step input=0x61*70000 -> ok 0x61*70000 [2 pages]
;; step input=0x61*200000 -> ok 0x61*200000 [5 pages]
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param $size i32) (result i32)
    (if (i32.gt_u (local.get $size) (i32.const 100000))
      (then (drop (memory.grow (i32.shr_u (local.get $size) (i32.const 16))))))
    (i32.const 1024))
  (func (export "step") (param $pointer i32) (param $length i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $pointer)) (i64.const 32))
      (i64.extend_i32_u (local.get $length)))))
