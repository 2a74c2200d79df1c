;; Returns its input, in the form of the AgentOS Rust SDK. A bump allocator, aligned to 8.
;; step -> ok 0x
;; step input='hello' -> ok 'hello'
(module
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 1024))
  (func (export "alloc") (param $size i32) (result i32)
    (local $here i32)
    (local.set $here (global.get $next))
    (global.set $next
      (i32.and
        (i32.add (i32.add (global.get $next) (local.get $size)) (i32.const 7))
        (i32.const -8)))
    (local.get $here))
  (func (export "step") (param $result i32) (param $pointer i32) (param $length i32)
    (i32.store (local.get $result) (local.get $pointer))
    (i32.store offset=4 (local.get $result) (local.get $length))))
