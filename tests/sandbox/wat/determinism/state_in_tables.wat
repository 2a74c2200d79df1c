;; Counts its calls by what it left in its tables: always the first.
;; step -> ok u32:1,2
(module
  (table $t 2 funcref)
  (elem declare func $one)
  (func $one)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (if (ref.is_null (table.get $t (i32.const 0))) (then (i32.store (i32.const 0) (i32.const 1))))
    (table.set $t (i32.const 0) (ref.func $one))
    (i32.store (i32.const 4) (table.grow $t (ref.func $one) (i32.const 5)))
    (table.fill $t (i32.const 0) (ref.func $one) (i32.const 7))
    (i64.const 8)))
