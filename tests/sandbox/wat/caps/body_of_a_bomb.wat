;; One function of 1.4 MB: refused by its size, before anything would compile it.
;; refused: the code of function 0 is too large: expected at most 131072 bytes, found 1400004 (split the function, or compile with less inlining)
(module
  (func (local i32) {200000 * loop local.get 0 br_if 0 } {200000 * end })
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
