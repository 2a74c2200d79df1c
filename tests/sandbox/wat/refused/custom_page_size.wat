(module (memory 1 (pagesize 1)))
