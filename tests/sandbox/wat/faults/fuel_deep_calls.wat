;; A tree of calls, thirty deep: two to the power of thirty of them.
;; step fuel=100000 -> fuel: step: all 100000 units of fuel are used
(module
  (func $tree (param $n i32)
    (if (local.get $n) (then
      (call $tree (i32.sub (local.get $n) (i32.const 1)))
      (call $tree (i32.sub (local.get $n) (i32.const 1))))))
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64)
    (call $tree (i32.const 30))
    (i64.const 0)))
