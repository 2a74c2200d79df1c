;; An empty module.
;; refused: export "memory": expected a memory, found no such export
;; refused: export "alloc": expected a function (i32) -> i32, found no such export
;; refused: export "step": expected a function (i32, i32) -> (i32, i32) or (i32, i32, i32) -> () or (i32, i32) -> i64, found no such export
(module)
