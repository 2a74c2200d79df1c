;; Returns its input, in the multi-value form.
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param $pointer i32) (param $length i32) (result i32 i32)
    (local.get $pointer) (local.get $length)))
