;; One entrypoint for each way to each trap that the allowed features can meet.
;; unreachable -> trap: unreachable: an unreachable instruction is reached
;; load -> trap: load: a memory access is out of bounds
;; store -> trap: store: a memory access is out of bounds
;; fill -> trap: fill: a memory access is out of bounds
;; init -> trap: init: a memory access is out of bounds
;; simd -> trap: simd: a memory access is out of bounds
;; table -> trap: table: a table access is out of bounds
;; element -> trap: element: a table access is out of bounds
;; empty -> trap: empty: an indirect call meets an empty table element
;; type -> trap: type: an indirect call meets a function of another type
;; overflow -> trap: overflow: an integer operation overflows
;; float_range -> trap: float_range: an integer operation overflows
;; zero -> trap: zero: an integer is divided by zero
;; float -> trap: float: a float has no integer value
;; copy -> trap: copy: a memory access is out of bounds
;; copy_wraps -> trap: copy_wraps: a memory access is out of bounds
;; dropped -> trap: dropped: a memory access is out of bounds
;; table_fill -> trap: table_fill: a table access is out of bounds
;; table_copy -> trap: table_copy: a table access is out of bounds
;; table_init -> trap: table_init: a table access is out of bounds
;; table_set -> trap: table_set: a table access is out of bounds
;; overflow_i32 -> trap: overflow_i32: an integer operation overflows
;; zero_i32 -> trap: zero_i32: an integer is divided by zero
;; float_unsigned -> trap: float_unsigned: an integer operation overflows
;; float_infinite -> trap: float_infinite: an integer operation overflows
(module
  (memory (export "memory") 1)
  (table 4 funcref)
  (elem (i32.const 0) func $no_arguments)
  (data $bytes "abc")
  (elem $functions func $no_arguments)
  (type $takes_one (func (param i32)))
  (type $takes_none (func))
  (func $no_arguments)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "unreachable") (param i32 i32) (result i64)
    unreachable)
  (func (export "load") (param i32 i32) (result i64)
    (i64.load (i32.const 65530)))
  (func (export "store") (param i32 i32) (result i64)
    (i64.store offset=4294967295 (i32.const -1) (i64.const 1)) (i64.const 0))
  (func (export "fill") (param i32 i32) (result i64)
    (memory.fill (i32.const 0) (i32.const 1) (i32.const 65537)) (i64.const 0))
  (func (export "init") (param i32 i32) (result i64)
    (memory.init $bytes (i32.const 0) (i32.const 2) (i32.const 2)) (i64.const 0))
  (func (export "table") (param i32 i32) (result i64)
    (drop (table.get 0 (i32.const 4))) (i64.const 0))
  (func (export "element") (param i32 i32) (result i64)
    (call_indirect (type $takes_none) (i32.const 9)) (i64.const 0))
  (func (export "empty") (param i32 i32) (result i64)
    (call_indirect (type $takes_none) (i32.const 1)) (i64.const 0))
  (func (export "type") (param i32 i32) (result i64)
    (call_indirect (type $takes_one) (i32.const 1) (i32.const 0)) (i64.const 0))
  (func (export "overflow") (param i32 i32) (result i64)
    (i64.div_s (i64.const 0x8000000000000000) (i64.const -1)))
  (func (export "zero") (param $pointer i32) (param i32) (result i64)
    (i64.rem_u (i64.const 1) (i64.extend_i32_u (i32.sub (local.get $pointer) (i32.const 1024)))))
  (func (export "float") (param i32 i32) (result i64)
    (i64.trunc_f64_s (f64.div (f64.const 0) (f64.const 0))))
  (func (export "float_range") (param i32 i32) (result i64)
    (i64.trunc_f64_s (f64.const 1e300)))
  (func (export "simd") (param i32 i32) (result i64)
    (i64x2.extract_lane 0 (v128.load (i32.const 65530))))
  (func (export "copy") (param i32 i32) (result i64)
    (memory.copy (i32.const 65530) (i32.const 0) (i32.const 7)) (i64.const 0))
  (func (export "copy_wraps") (param i32 i32) (result i64)
    (memory.copy (i32.const -1) (i32.const -1) (i32.const 2)) (i64.const 0))
  (func (export "dropped") (param i32 i32) (result i64)
    (data.drop $bytes) (memory.init $bytes (i32.const 0) (i32.const 0) (i32.const 1)) (i64.const 0))
  (func (export "table_fill") (param i32 i32) (result i64)
    (table.fill 0 (i32.const 3) (ref.null func) (i32.const 2)) (i64.const 0))
  (func (export "table_copy") (param i32 i32) (result i64)
    (table.copy 0 0 (i32.const 0) (i32.const 3) (i32.const 2)) (i64.const 0))
  (func (export "table_init") (param i32 i32) (result i64)
    (table.init 0 $functions (i32.const 0) (i32.const 1) (i32.const 1)) (i64.const 0))
  (func (export "table_set") (param i32 i32) (result i64)
    (table.set 0 (i32.const -1) (ref.null func)) (i64.const 0))
  (func (export "overflow_i32") (param i32 i32) (result i64)
    (i64.extend_i32_s (i32.div_s (i32.const 0x80000000) (i32.const -1))))
  (func (export "zero_i32") (param i32 i32) (result i64)
    (i64.extend_i32_s (i32.rem_s (i32.const 1) (i32.const 0))))
  (func (export "float_unsigned") (param i32 i32) (result i64)
    (i64.extend_i32_u (i32.trunc_f32_u (f32.const -1))))
  (func (export "float_infinite") (param i32 i32) (result i64)
    (i64.trunc_f32_s (f32.const inf))))
