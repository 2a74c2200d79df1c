;; A function is declared and has no body.
;; refused: function and code section have inconsistent lengths
(module binary "\00asm\01\00\00\00"
  "\01\0f\03\60\01\7f\01\7f\60\02\7f\7f\01\7e\60\00\00"  ;; types: alloc, step, ()
  "\03\04\03\00\01\02"  ;; three functions
  "\05\03\01\00\01"  ;; one memory
  "\07\19\03\06memory\02\00\05alloc\00\00\04step\00\01"
  "\0a\0c\02\05\00\41\80\08\0b\04\00\42\00\0b")  ;; two bodies
