(module (func (block $all (try_table (catch_all $all)))))
