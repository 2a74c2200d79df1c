;; Imports without end: only so many are listed.
;; refused: the module imports the function "0" from "env":
;; refused: the module imports the function "1" from "env":
;; refused: the module imports the function "2" from "env":
;; refused: the module imports the function "3" from "env":
;; refused: the module imports the function "4" from "env":
;; refused: the module imports the function "5" from "env":
;; refused: the module imports the function "6" from "env":
;; refused: the module imports the function "7" from "env":
;; refused: the module imports the function "8" from "env":
;; refused: the module imports the function "9" from "env":
;; refused: the module imports the function "10" from "env":
;; refused: the module imports the function "11" from "env":
;; refused: the module imports the function "12" from "env":
;; refused: the module imports the function "13" from "env":
;; refused: the module imports the function "14" from "env":
;; refused: the module imports the function "15" from "env":
;; refused: the module imports the function "16" from "env":
;; refused: the module imports the function "17" from "env":
;; refused: the module imports the function "18" from "env":
;; refused: the module imports the function "19" from "env":
;; refused: the module imports the function "20" from "env":
;; refused: the module imports the function "21" from "env":
;; refused: the module imports the function "22" from "env":
;; refused: the module imports the function "23" from "env":
;; refused: the module imports the function "24" from "env":
;; refused: the module imports the function "25" from "env":
;; refused: the module imports the function "26" from "env":
;; refused: the module imports the function "27" from "env":
;; refused: the module imports the function "28" from "env":
;; refused: the module imports the function "29" from "env":
;; refused: the module imports the function "30" from "env":
;; refused: the module imports the function "31" from "env":
;; refused: and 969 problems more
(module
  {1001 * (import "env" "#" (func))}
  (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "step") (param i32 i32) (result i64) (i64.const 0)))
