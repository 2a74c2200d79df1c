;; Stack switching: a continuation type.
;; refused: a type is not a function type (GC is not allowed)
;; refused: cannot define continuation types when stack switching is disabled
(module
  (type $f (func))
  (type $c (cont $f))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
