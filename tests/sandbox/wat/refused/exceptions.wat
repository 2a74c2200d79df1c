(module (tag $oops) (func (throw $oops)))
