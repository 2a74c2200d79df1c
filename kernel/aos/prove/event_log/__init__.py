"""A journal as an event log, for process mining and for analysis (spec/exports.md)."""
