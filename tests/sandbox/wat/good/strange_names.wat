;; Entrypoints may have any name: empty, with controls, right to left, with a quote and a newline.
;; step -> ok 0x
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0))
  (func (export "") (param i32 i32) (result i64) (i64.const 0))
  (func (export "\00") (param i32 i32) (result i64) (i64.const 0))
  (func (export "\n\1b[31m") (param i32 i32) (result i64) (i64.const 0))
  (func (export "\e2\80\ae") (param i32 i32) (result i64) (i64.const 0))
  (func (export "\22") (param i32 i32) (result i64) (i64.const 0))
  (func (export "..") (param i32 i32) (result i64) (i64.const 0))
  (func (export "../../etc") (param i32 i32) (result i64) (i64.const 0)))
