(module (type $f (func)) (type $c (cont $f)))
