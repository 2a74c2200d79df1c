;; The name of an export is not UTF-8.
;; refused: malformed UTF-8 encoding
(module binary "\00asm\01\00\00\00"
  "\01\0c\02\60\01\7f\01\7f\60\02\7f\7f\01\7e"  ;; types: alloc, step
  "\03\03\02\00\01"  ;; two functions
  "\05\03\01\00\01"  ;; one memory
  "\07\1e\04\06memory\02\00\05alloc\00\00\04step\00\01\02\ff\fe\00\00"
  "\0a\0c\02\05\00\41\80\08\0b\04\00\42\00\0b")
