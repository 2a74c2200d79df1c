(module (memory i64 1))
