;; Grows its table until that fails, which is at the cap, and says how large it became.
;; step -> ok u32:65536
(module
  (memory (export "memory") 1)
  (table $t 1 funcref)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (loop $again
      (br_if $again
        (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
    (loop $again
      (br_if $again
        (i32.ne (table.grow $t (ref.null func) (i32.const 1)) (i32.const -1))))
    (i32.store (i32.const 0) (table.size $t))
    (i64.const 4)))
