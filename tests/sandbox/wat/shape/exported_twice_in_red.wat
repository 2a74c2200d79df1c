;; Two exports of one name, which would colour a terminal: no problem hands that on.
;; refused: duplicate export name `�[31m�red` already defined
(module
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0))
  (export "\1b[31m\e2\80\aered" (func 0))
  (export "\1b[31m\e2\80\aered" (func 1)))
