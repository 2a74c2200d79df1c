(module (func (param anyref)))
