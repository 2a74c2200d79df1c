"""An index of a journal: which records, cells, effects and faults a page shows (spec/index.md)."""
