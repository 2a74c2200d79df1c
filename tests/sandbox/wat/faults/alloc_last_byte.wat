;; Its alloc answers with the last byte of the memory: room for one byte only.
;; step input='a' -> ok 'a'
;; step input='ab' -> trap: alloc: the range that it gave lies outside the memory: found 2 bytes at 65535
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 65535))
  (func (export "step") (param $pointer i32) (param $length i32) (result i32 i32)
    (local.get $pointer) (local.get $length)))
