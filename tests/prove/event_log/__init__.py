"""A journal as an event log (spec/exports.md)."""
