;; The result's eight bytes are the output itself.
;; step -> ok u32:64,8
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 64))
  (func (export "step") (param $result i32) (param i32) (param i32)
    (i32.store (local.get $result) (local.get $result))
    (i32.store offset=4 (local.get $result) (i32.const 8))))
