;; Custom sections of every kind are stepped over, whatever they hold, and names are for people only.
;; step -> ok 0x
(module
  (@custom "name" "\ff\ff\ff\ff\ff\ff")
  (@custom "producers" "")
  (@custom "metadata.code.branch_hint" "\ff")
  (@custom "" "{100000 * x}")
  (@custom "\f0\9f\92\a3" "\00\0b")
  (@custom ".debug_info" "\de\ad\be\ef")
  {100 * (@custom "#" "#")}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
