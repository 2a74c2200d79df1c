;; Returns the pointer and length that its input holds as two 32-bit numbers, in each form.
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param $size i32) (result i32)
    (select (i32.const 512) (i32.const 1024) (i32.eq (local.get $size) (i32.const 8))))
  (func (export "pair") (param $pointer i32) (param i32) (result i32 i32)
    (i32.load (local.get $pointer)) (i32.load offset=4 (local.get $pointer)))
  (func (export "packed") (param $pointer i32) (param i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.load (local.get $pointer))) (i64.const 32))
      (i64.extend_i32_u (i32.load offset=4 (local.get $pointer)))))
  (func (export "return_pointer") (param $result i32) (param $pointer i32) (param i32)
    (i64.store (local.get $result) (i64.load (local.get $pointer)))))
