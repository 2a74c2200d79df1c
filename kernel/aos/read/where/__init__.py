"""Conditions on cells: ``customer_id = "c-1" and amount_cents >= 1000`` (spec/search.md)."""

from typing import Final

EXAMPLE: Final = 'customer_id = "c-1" and amount_cents >= 1000'
"""A condition, for texts about them."""
