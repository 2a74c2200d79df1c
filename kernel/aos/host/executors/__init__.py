"""Executors: they run published effects and bring back how each ended (spec/executors.md)."""
