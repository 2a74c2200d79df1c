;; Returns its input, in the multi-value form.
;; step -> ok 0x
;; step input='hello' -> ok 'hello'
;; step input='hello' output=5 -> ok 'hello'
;; step input='hello' output=4 -> output_too_large: step: the output is too large: expected at most 4 bytes, found 5
;; step input='hello' memory=131071 -> memory: step: the module's memory begins larger than the limit: expected at most 131071 bytes, found 131072 [0 pages]
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param $pointer i32) (param $length i32) (result i32 i32)
    (local.get $pointer) (local.get $length)))
