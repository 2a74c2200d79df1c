;; alloc takes all memory and then answers with the failed grow.
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32)
    (loop $again
      (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    (i32.const -1))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
