;; Its alloc answers with one place for the input and the result, which then overlap.
;; step input=u32:16,3,7 -> ok 0x070000
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 8))
  (func (export "step") (param i32 i32 i32)))
