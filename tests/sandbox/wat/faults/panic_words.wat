;; Says words at its panic address, true ones and all kinds of wrong ones, and traps in many ways.
;; literal -> trap: literal: panicked: src/lib.rs:42:13: out of eggs
;; unchanged -> trap: unchanged: an unreachable instruction is reached
;; twice -> trap: twice: panicked: 1
;; empty -> trap: empty: an unreachable instruction is reached
;; unicode -> trap: unicode: panicked: žluťoučký 🦆
;; controls -> trap: controls: panicked: a�[31mb c�d�e
;; lines -> trap: lines: panicked: left: 1  right: 2
;; directions -> trap: directions: panicked: a�b�c
;; not_utf8 -> trap: not_utf8: an unreachable instruction is reached
;; half_a_character -> trap: half_a_character: an unreachable instruction is reached
;; surrogate -> trap: surrogate: an unreachable instruction is reached
;; longest -> trap: longest: panicked: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
;; too_long -> trap: too_long: an unreachable instruction is reached
;; length_lies -> trap: length_lies: an unreachable instruction is reached
;; address -> trap: address: a memory access is out of bounds
;; divides -> trap: divides: an integer is divided by zero
;; table -> trap: table: a table access is out of bounds
;; loops -> fuel: loops: all 10000000 units of fuel are used
;; full memory=131072 -> memory: full: an unreachable instruction is reached, with all 131072 bytes of memory in use: panicked: src/lib.rs:42:13: out of eggs
;; full_silently memory=131072 -> memory: full_silently: an unreachable instruction is reached, with all 131072 bytes of memory in use
;; full_and_outside memory=131072 -> memory: full_and_outside: a memory access is out of bounds, with all 131072 bytes of memory in use
;; deep -> stack: deep: the guest's stack is used up
;; returns -> ok 'fine'
;; output -> output_malformed: output: the output lies outside the memory: found 1 bytes at 4294967295
(module
  (memory (export "memory") 1)
  (table 1 funcref)
  (global (export "aos_panic") i32 (i32.const 4096))
  (data (i32.const 100) "src/lib.rs:42:13: out of eggs")
  (data (i32.const 200) "\c5\belu\c5\a5ou\c4\8dk\c3\bd \f0\9f\a6\86")
  (data (i32.const 300) "a\1b[31mb\tc\7fd\c2\9be")
  (data (i32.const 400) "left: 1\n\rright: 2")
  (data (i32.const 500) "a\e2\80\aeb\e2\81\a6c")
  (data (i32.const 600) "ab\ffcd")
  (data (i32.const 700) "ab\c5")
  (data (i32.const 800) "\ed\a0\80")
  (data (i32.const 900) "fine")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func $say (param $from i32) (param $size i32)
    (i32.store (i32.const 4096) (local.get $size))
    (memory.copy (i32.const 4100) (local.get $from) (local.get $size)))
  (func (export "literal") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) unreachable)
  (func (export "unchanged") (param i32 i32) (result i64) unreachable)
  ;; Would say more in each call of one instance: every call has one of its own.
  (func (export "twice") (param i32 i32) (result i64)
    (i32.store (i32.const 4096) (i32.add (i32.load (i32.const 4096)) (i32.const 1)))
    (i32.store8 (i32.const 4100) (i32.add (i32.const 48) (i32.load (i32.const 4096))))
    unreachable)
  (func (export "empty") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (call $say (i32.const 0) (i32.const 0)) unreachable)
  (func (export "unicode") (param i32 i32) (result i64)
    (call $say (i32.const 200) (i32.const 18)) unreachable)
  (func (export "controls") (param i32 i32) (result i64)
    (call $say (i32.const 300) (i32.const 14)) unreachable)
  (func (export "lines") (param i32 i32) (result i64)
    (call $say (i32.const 400) (i32.const 17)) unreachable)
  (func (export "directions") (param i32 i32) (result i64)
    (call $say (i32.const 500) (i32.const 9)) unreachable)
  (func (export "not_utf8") (param i32 i32) (result i64)
    (call $say (i32.const 600) (i32.const 5)) unreachable)
  (func (export "half_a_character") (param i32 i32) (result i64)
    (call $say (i32.const 700) (i32.const 3)) unreachable)
  (func (export "surrogate") (param i32 i32) (result i64)
    (call $say (i32.const 800) (i32.const 3)) unreachable)
  (func (export "longest") (param i32 i32) (result i64)
    (memory.fill (i32.const 4100) (i32.const 120) (i32.const 512))
    (i32.store (i32.const 4096) (i32.const 512)) unreachable)
  (func (export "too_long") (param i32 i32) (result i64)
    (memory.fill (i32.const 4100) (i32.const 120) (i32.const 513))
    (i32.store (i32.const 4096) (i32.const 513)) unreachable)
  (func (export "length_lies") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (i32.store (i32.const 4096) (i32.const -1)) unreachable)
  ;; A panic message before a trap of another kind: the host does not read it.
  (func (export "address") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (i64.load (i32.const -1)))
  (func (export "divides") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29))
    (i64.div_u (i64.const 1) (i64.extend_i32_u (i32.load (i32.const 50)))))
  (func (export "table") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (drop (table.get 0 (i32.const 4))) (i64.const 0))
  (func (export "loops") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (loop $again (br $again)) unreachable)
  (func (export "full") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (drop (memory.grow (i32.const 1))) unreachable)
  (func (export "full_silently") (param i32 i32) (result i64)
    (drop (memory.grow (i32.const 1))) unreachable)
  (func (export "full_and_outside") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (drop (memory.grow (i32.const 1)))
    (i64.load (i32.const -1)))
  (func $deep (result i64) (i64.add (call $deep) (i64.const 1)))
  (func (export "deep") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (call $deep))
  (func (export "returns") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (i64.const 0x0000038400000004))
  (func (export "output") (param i32 i32) (result i64)
    (call $say (i32.const 100) (i32.const 29)) (i64.const 0xffffffff00000001)))
