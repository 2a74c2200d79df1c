;; Its memory begins with three pages.
;; step memory=196608 -> ok 0x [3 pages]
;; step memory=196607 -> memory: step: the module's memory begins larger than the limit: expected at most 196607 bytes, found 196608 [0 pages]
;; step memory=0 -> memory: step: the module's memory begins larger than the limit: expected at most 0 bytes, found 196608 [0 pages]
(module
  (memory (export "memory") 3)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
