(module (table i64 1 funcref))
