(module (type $t (func)) (func (param (ref null $t)) (call_ref $t (local.get 0))))
