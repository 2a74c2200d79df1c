"""Conditions on cells: ``customer = "c-1" and total >= 1000`` (spec/search.md)."""
