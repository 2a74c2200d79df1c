"""The report about a world that a person reads (spec/exports.md, EX-60 to EX-79)."""
