;; GC: a small integer as a reference.
;; refused: value type 0x6c belongs to no allowed feature
;; refused: heap types not supported without the gc feature
(module
  (func (param i31ref))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
