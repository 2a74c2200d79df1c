;; Its panic address is another global's value, which only an engine with GC allows.
;; refused: constant expression required: global.get of locally defined global
(module
  (memory (export "memory") 1)
  (global $there i32 (i32.const 64))
  (global (export "aos_panic") i32 (global.get $there))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) unreachable))
