"""The cells and rows that lists by attribute select from. Standard library alone: the interpreters
of other systems import it too."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

CELLS_OF_A_CUSTOMER: Final = 100
"""A page of 100 rows is all cells of one customer."""

CITIES: Final = 50
NOTE_CHARS: Final = 200
PAGE: Final = 100

_SPREAD: Final = 7_919
"""A prime: the cells of a customer have keys that are far from each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerRow:
    """The key of a cell, and its state."""

    key: str
    customer: str
    city: str
    total: int
    note: str


def customer_name(number: int) -> str:
    return f"c-{number:06}"


def customers(cells: int) -> int:
    """How many customers so many cells have."""
    return max(1, cells // CELLS_OF_A_CUSTOMER)


def row(item: int, cells: int) -> CustomerRow:
    """The cell number ``item`` of ``cells``."""
    owner = item * _SPREAD % customers(cells)
    return CustomerRow(
        key=f"cell-{item:07}",
        customer=customer_name(owner),
        city=f"city-{owner % CITIES}",
        total=item * _SPREAD % 100_000,
        note=hashlib.shake_128(str(item).encode()).hexdigest(NOTE_CHARS // 2),
    )
