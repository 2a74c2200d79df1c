;; Locals that were never written are zero, and so are elements of a table.
;; step -> ok u32:0,1
(module
  (table 5 externref)
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (local i32 f32)
    (i32.store (i32.const 0) (i32.or (local.get 2) (i32.reinterpret_f32 (local.get 3))))
    (i32.store (i32.const 4) (ref.is_null (table.get 0 (i32.const 4))))
    (i64.const 8)))
