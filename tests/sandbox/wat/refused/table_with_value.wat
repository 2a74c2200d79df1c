(module (table 1 funcref (ref.null func)))
