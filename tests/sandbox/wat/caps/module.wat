;; One byte more than a module may have without its custom sections.
;; refused: the module is too large: expected at most 8388608 bytes without custom sections, found 8388609
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0))
  (data (i32.const 0) "{8388522 * a}"))
