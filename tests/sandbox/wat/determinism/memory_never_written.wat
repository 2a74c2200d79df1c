;; Memory that was never written is zero: the first page, the last, and pages that were added.
;; step -> ok u32:0 [17 pages]
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (local $at i32) (local $or i64)
    (drop (memory.grow (i32.const 16)))
    (local.set $at (i32.const 16))
    (loop $again
      (local.set $or (i64.or (local.get $or) (i64.load (local.get $at))))
      (br_if $again (i32.lt_u
        (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 1114112))))
    (i32.store (i32.const 0) (i32.or
      (i32.wrap_i64 (local.get $or)) (i32.wrap_i64 (i64.shr_u (local.get $or) (i64.const 32)))))
    (memory.fill (i32.const 4) (i32.const 255) (i32.const 1114108))
    (i64.const 4)))
