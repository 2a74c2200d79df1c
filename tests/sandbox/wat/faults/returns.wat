;; Returns the pointer and length that its input, at 512, holds as two numbers, in each form.
;; pair input=u32:0,3 -> ok 0x000000
;; pair input=u32:131067,5 -> ok 0x00*5
;; pair input=u32:131072,0 -> ok 0x
;; pair input=u32:0,0 -> ok 0x
;; pair input=u32:131067,6 -> output_malformed: pair: the output lies outside the memory: found 6 bytes at 131067
;; pair input=u32:131073,0 -> output_malformed: pair: the output lies outside the memory: found 0 bytes at 131073
;; pair input=u32:-1,1 -> output_malformed: pair: the output lies outside the memory: found 1 bytes at 4294967295
;; pair input=u32:0,-1 -> output_malformed: pair: the output lies outside the memory: found 4294967295 bytes at 0
;; pair input=u32:-1,-1 -> output_malformed: pair: the output lies outside the memory: found 4294967295 bytes at 4294967295
;; pair input=u32:-16,16 -> output_malformed: pair: the output lies outside the memory: found 16 bytes at 4294967280
;; pair input=u32:-2147483648,0 -> output_malformed: pair: the output lies outside the memory: found 0 bytes at 2147483648
;; pair input=u32:0,2147483647 -> output_malformed: pair: the output lies outside the memory: found 2147483647 bytes at 0
;; pair input=u32:2147483647,2147483647 -> output_malformed: pair: the output lies outside the memory: found 2147483647 bytes at 2147483647
;; pair input=u32:1,-1 -> output_malformed: pair: the output lies outside the memory: found 4294967295 bytes at 1
;; pair input=u32:0,99 output=99 -> ok 0x00*99
;; pair input=u32:0,100 output=99 -> output_too_large: pair: the output is too large: expected at most 99 bytes, found 100
;; pair input=u32:0,1 output=0 -> output_too_large: pair: the output is too large: expected at most 0 bytes, found 1
;; packed input=u32:0,3 -> ok 0x000000
;; packed input=u32:131067,5 -> ok 0x00*5
;; packed input=u32:131072,0 -> ok 0x
;; packed input=u32:0,0 -> ok 0x
;; packed input=u32:131067,6 -> output_malformed: packed: the output lies outside the memory: found 6 bytes at 131067
;; packed input=u32:131073,0 -> output_malformed: packed: the output lies outside the memory: found 0 bytes at 131073
;; packed input=u32:-1,1 -> output_malformed: packed: the output lies outside the memory: found 1 bytes at 4294967295
;; packed input=u32:0,-1 -> output_malformed: packed: the output lies outside the memory: found 4294967295 bytes at 0
;; packed input=u32:-1,-1 -> output_malformed: packed: the output lies outside the memory: found 4294967295 bytes at 4294967295
;; packed input=u32:-16,16 -> output_malformed: packed: the output lies outside the memory: found 16 bytes at 4294967280
;; packed input=u32:-2147483648,0 -> output_malformed: packed: the output lies outside the memory: found 0 bytes at 2147483648
;; packed input=u32:0,2147483647 -> output_malformed: packed: the output lies outside the memory: found 2147483647 bytes at 0
;; packed input=u32:2147483647,2147483647 -> output_malformed: packed: the output lies outside the memory: found 2147483647 bytes at 2147483647
;; packed input=u32:1,-1 -> output_malformed: packed: the output lies outside the memory: found 4294967295 bytes at 1
;; packed input=u32:0,99 output=99 -> ok 0x00*99
;; packed input=u32:0,100 output=99 -> output_too_large: packed: the output is too large: expected at most 99 bytes, found 100
;; packed input=u32:0,1 output=0 -> output_too_large: packed: the output is too large: expected at most 0 bytes, found 1
;; return_pointer input=u32:0,3 -> ok 0x000000
;; return_pointer input=u32:131067,5 -> ok 0x00*5
;; return_pointer input=u32:131072,0 -> ok 0x
;; return_pointer input=u32:0,0 -> ok 0x
;; return_pointer input=u32:131067,6 -> output_malformed: return_pointer: the output lies outside the memory: found 6 bytes at 131067
;; return_pointer input=u32:131073,0 -> output_malformed: return_pointer: the output lies outside the memory: found 0 bytes at 131073
;; return_pointer input=u32:-1,1 -> output_malformed: return_pointer: the output lies outside the memory: found 1 bytes at 4294967295
;; return_pointer input=u32:0,-1 -> output_malformed: return_pointer: the output lies outside the memory: found 4294967295 bytes at 0
;; return_pointer input=u32:-1,-1 -> output_malformed: return_pointer: the output lies outside the memory: found 4294967295 bytes at 4294967295
;; return_pointer input=u32:-16,16 -> output_malformed: return_pointer: the output lies outside the memory: found 16 bytes at 4294967280
;; return_pointer input=u32:-2147483648,0 -> output_malformed: return_pointer: the output lies outside the memory: found 0 bytes at 2147483648
;; return_pointer input=u32:0,2147483647 -> output_malformed: return_pointer: the output lies outside the memory: found 2147483647 bytes at 0
;; return_pointer input=u32:2147483647,2147483647 -> output_malformed: return_pointer: the output lies outside the memory: found 2147483647 bytes at 2147483647
;; return_pointer input=u32:1,-1 -> output_malformed: return_pointer: the output lies outside the memory: found 4294967295 bytes at 1
;; return_pointer input=u32:0,99 output=99 -> ok 0x00*99
;; return_pointer input=u32:0,100 output=99 -> output_too_large: return_pointer: the output is too large: expected at most 99 bytes, found 100
;; return_pointer input=u32:0,1 output=0 -> output_too_large: return_pointer: the output is too large: expected at most 0 bytes, found 1
;; pair input=u32:1024,8 -> ok 0x00*8
;; pair input=u32:512,8 -> ok u32:512,8
;; pair input=u32:514,4 -> ok 0x00000400
(module
  (memory (export "memory") 2)
  (func (export "alloc") (param $size i32) (result i32)
    (select (i32.const 512) (i32.const 1024) (i32.eq (local.get $size) (i32.const 8))))
  (func (export "pair") (param $pointer i32) (param i32) (result i32 i32)
    (i32.load (local.get $pointer)) (i32.load offset=4 (local.get $pointer)))
  (func (export "packed") (param $pointer i32) (param i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.load (local.get $pointer))) (i64.const 32))
      (i64.extend_i32_u (i32.load offset=4 (local.get $pointer)))))
  (func (export "return_pointer") (param $result i32) (param $pointer i32) (param i32)
    (i64.store (local.get $result) (i64.load (local.get $pointer)))))
