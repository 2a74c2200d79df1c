;; Overwrites the whole of its memory, input and all, and returns it.
;; step input='gone' output=65536 -> ok 0xab*65536
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (memory.fill (i32.const 0) (i32.const 0xab) (i32.const 65536))
    (i64.const 65536)))
