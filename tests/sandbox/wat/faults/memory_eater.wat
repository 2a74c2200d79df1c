;; Takes memory page by page until there is none, then gives up as allocators do.
;; step -> memory: step: an unreachable instruction is reached, with all 4194304 bytes of memory in use [64 pages]
;; address -> memory: address: a memory access is out of bounds, with all 4194304 bytes of memory in use [64 pages]
;; divides -> trap: divides: an integer is divided by zero [64 pages]
;; returns input='well' -> ok 'well' [64 pages]
;; returns memory=65537 -> ok 0x [1 page]
;; leaps -> trap: leaps: an unreachable instruction is reached [1 page]
(module
  (memory (export "memory") 1)
  (func $eat
    (loop $again
      (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (call $eat) unreachable)
  (func (export "address") (param i32 i32) (result i64)
    (call $eat)
    (i32.store (i32.const -1) (i32.const 1)) (i64.const 0))
  (func (export "divides") (param i32 i32) (result i64)
    (call $eat)
    (i64.div_u (i64.const 1) (i64.extend_i32_u (i32.load (i32.const 0)))))
  (func (export "returns") (param $pointer i32) (param $length i32) (result i64)
    (call $eat)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $pointer)) (i64.const 32))
      (i64.extend_i32_u (local.get $length))))
  ;; asks for too much at once: nothing is in use when it gives up
  (func (export "leaps") (param i32 i32) (result i64)
    (if (i32.eq (memory.grow (i32.const 65535)) (i32.const -1)) (then unreachable))
    (i64.const 0)))
