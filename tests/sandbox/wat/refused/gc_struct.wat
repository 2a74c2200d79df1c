(module (type (struct (field i32))))
