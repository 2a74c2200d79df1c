;; Loops in each other, fifteen thousand deep: the compiler takes many seconds for a few kilobytes.
;; costly: time
(module
  {11 * (func (local i32) {15000 * loop local.get 0 br_if 0 } {15000 * end })}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
