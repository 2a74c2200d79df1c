;; Recurses as deep as its input's first number says.
;; step input=u32:1000 -> ok u32:1000
;; step input=u32:-1 -> stack: step: the guest's stack is used up
(module
  (memory (export "memory") 1)
  (func $deep (param $n i32) (result i32)
    (if (result i32) (local.get $n)
      (then (i32.add (call $deep (i32.sub (local.get $n) (i32.const 1))) (i32.const 1)))
      (else (i32.const 0))))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param $pointer i32) (param $length i32) (result i32 i32)
    (drop (call $deep (i32.load (local.get $pointer))))
    (local.get $pointer) (local.get $length)))
