"""What other code would have done to a recorded journal: to each of its steps alone, ``against`` a
build or a manifest (spec/audit.md, A-80 to A-90), or to its whole course, as a ``shadow``
(spec/shadow.md)."""
