"""Try other code on a recorded journal: on each step alone, ``against`` a build or a manifest
(spec/audit.md, A-80 to A-90), or on its whole course, as a ``shadow`` (spec/shadow.md)."""
