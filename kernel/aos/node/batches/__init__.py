"""Batches: a command or an event for each of many cells (spec/batch.md)."""
