;; Another version of the binary format.
;; refused: this is not version 1 of the WASM format
;; refused: unknown binary version
(module binary "\00asm" "\02\00\00\00")
