;; A memory may allow itself to grow to 4 GiB; it grows to the step's limit.
;; step -> ok u32:-1 [1 page]
;; step memory=131072 -> ok u32:-1 [1 page]
;; most -> ok u32:1 [64 pages]
;; most memory=131072 -> ok u32:-1 [1 page]
(module
  (memory (export "memory") 1 65536)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (i32.store (i32.const 0) (memory.grow (i32.const 65535)))
    (i64.const 4))
  (func (export "most") (param i32 i32) (result i64)
    (i32.store (i32.const 0) (memory.grow (i32.const 63)))
    (i64.const 4)))
