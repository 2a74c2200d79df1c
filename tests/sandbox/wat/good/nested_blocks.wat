;; Forty thousand blocks in each other are within the caps, and nothing here recurses over them.
;; step -> ok 0x
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) {40000 * block } {40000 * end } i64.const 0))
