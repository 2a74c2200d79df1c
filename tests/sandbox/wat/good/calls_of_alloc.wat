;; Returns the sizes that alloc was asked for, in order: its input's, and 8 for the result.
;; step -> ok u32:0,8
;; step input=0x00*300 -> ok u32:300,8
(module
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (func (export "alloc") (param $size i32) (result i32)
    (i32.store (i32.add (i32.const 16) (i32.mul (global.get $calls) (i32.const 4)))
      (local.get $size))
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (i32.mul (global.get $calls) (i32.const 1024)))
  (func (export "step") (param $result i32) (param $pointer i32) (param $length i32)
    (i32.store (local.get $result) (i32.const 16))
    (i32.store offset=4 (local.get $result) (i32.mul (global.get $calls) (i32.const 4)))))
