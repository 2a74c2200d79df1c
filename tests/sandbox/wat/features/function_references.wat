;; Function references: a typed one, called.
;; refused: value type 0x63 belongs to no allowed feature
;; refused: function references required
(module
  (type $t (func))
  (func (param (ref null $t)) (call_ref $t (local.get 0)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
