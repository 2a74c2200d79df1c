;; Without fuel nothing runs.
;; step fuel=0 -> fuel: alloc: all 0 units of fuel are used
;; step fuel=1 -> fuel: alloc: all 1 units of fuel are used
;; step -> ok 0x
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
