;; GC: an array type.
;; refused: a type is not a function type (GC is not allowed)
;; refused: array indexed types not supported without the gc feature
(module
  (type (array (mut i32)))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
