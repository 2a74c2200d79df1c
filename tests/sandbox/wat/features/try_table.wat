;; Exceptions: a block that catches.
;; refused: exceptions support is not enabled
(module
  (func (block $all (try_table (catch_all $all))))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
