;; Its second alloc, for the result, answers with seven bytes at the end.
;; step input='x' -> trap: alloc: the range that it gave lies outside the memory: found 8 bytes at 65529
(module
  (memory (export "memory") 1)
  (global $calls (mut i32) (i32.const 0))
  (func (export "alloc") (param i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (result i32) (i32.eq (global.get $calls) (i32.const 1))
      (then (i32.const 1024)) (else (i32.const 65529))))
  (func (export "step") (param i32 i32 i32)))
