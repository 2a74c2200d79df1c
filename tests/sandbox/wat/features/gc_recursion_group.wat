;; GC: types that refer to each other.
;; refused: a type is not a function type (GC is not allowed)
;; refused: rec group usage requires `gc` proposal to be enabled
(module
  (rec (type $a (func (param (ref null $b)))) (type $b (func (param (ref null $a)))))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
