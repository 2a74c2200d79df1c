;; Everything at its cap runs.
;; step memory=1073741824 -> ok 0x [16384 pages]
(module
  (memory (export "memory") 16384)
  {8 * (table 65536 funcref)}
  (func (local {1024 * i32 }))
  (func {131070 * nop })
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
