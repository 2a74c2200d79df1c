;; GC: an initial value that is an own global, not an imported one.
;; refused: constant expression required: global.get of locally defined global
(module
  (global $a i32 (i32.const 1))
  (global i32 (global.get $a))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
