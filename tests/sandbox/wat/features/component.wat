;; Components: a component, which is not a module.
;; refused: this is a component, not a module
;; refused: encoded as a component but the WebAssembly component model feature is not enabled
(component)
