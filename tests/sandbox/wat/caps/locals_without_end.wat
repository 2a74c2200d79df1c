;; Four billion locals in a few bytes.
;; refused: function 0 has too many locals: expected at most 1024, found 4294967295
;; refused: too many locals
(module binary "\00asm\01\00\00\00"
  "\01\0f\03\60\01\7f\01\7f\60\02\7f\7f\01\7e\60\00\00"  ;; types: alloc, step, ()
  "\03\04\03\02\00\01"  ;; three functions
  "\05\03\01\00\01"  ;; one memory
  "\07\19\03\06memory\02\00\05alloc\00\01\04step\00\02"
  "\0a\15\03\08\01\ff\ff\ff\ff\0f\7f\0b\05\00\41\80\08\0b\04\00\42\00\0b")
