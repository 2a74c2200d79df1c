"""Conditions on cells: ``customer_id = "c-1" and amount_cents >= 1000`` (spec/search.md)."""
