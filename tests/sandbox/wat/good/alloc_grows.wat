;; Every alloc grows the memory and answers with its new last page, so that it moves between calls.
;; step input='moved' memory=16777216 -> ok 'moved' [103 pages]
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32)
    (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
  (func (export "step") (param $result i32) (param $pointer i32) (param $length i32)
    (local $new i32)
    (local.set $new (i32.mul (memory.grow (i32.const 100)) (i32.const 65536)))
    (memory.copy (local.get $new) (local.get $pointer) (local.get $length))
    (i32.store (local.get $result) (local.get $new))
    (i32.store offset=4 (local.get $result) (local.get $length))))
