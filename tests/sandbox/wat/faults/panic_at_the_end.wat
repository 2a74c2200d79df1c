;; Its panic address leaves room for four letters before the memory ends.
;; fits -> trap: fits: panicked: eggs
;; one_too_many -> trap: one_too_many: an unreachable instruction is reached
;; fits_once_grown -> trap: fits_once_grown: panicked: eggs!
(module
  (memory (export "memory") 1)
  (global (export "aos_panic") i32 (i32.const 65528))
  (data (i32.const 65528) "\04\00\00\00eggs")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "fits") (param i32 i32) (result i64) unreachable)
  (func (export "one_too_many") (param i32 i32) (result i64)
    (i32.store8 (i32.const 65528) (i32.const 5)) unreachable)
  (func (export "fits_once_grown") (param i32 i32) (result i64)
    (drop (memory.grow (i32.const 1)))
    (i32.store8 (i32.const 65528) (i32.const 5))
    (i32.store8 (i32.const 65536) (i32.const 33)) unreachable))
