"""The report that a person reads (spec/exports.md)."""
