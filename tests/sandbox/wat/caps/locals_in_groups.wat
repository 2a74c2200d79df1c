;; One local more, each in a group of its own and of another type than its neighbour.
;; refused: function 0 has too many locals: expected at most 1024, found 1025
(module
  (func {512 * (local i32) (local f64) } (local v128))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
