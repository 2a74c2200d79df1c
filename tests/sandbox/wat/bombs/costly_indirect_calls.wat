;; Indirect calls, two hundred thousand: the compiler takes gigabytes for a megabyte.
;; costly: memory
(module
  (table 10 funcref)
  {11 * (func (local i32) {20000 * local.get 0 call_indirect })}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
