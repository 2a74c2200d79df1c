"""(name, names) -> the name that was meant, for a refusal (spec/core.md, CR-26)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

EDITS_MAX: Final = 3
"""Characters that a name may lack, have too many or have wrong."""

NAME_CHARACTERS: Final = 200
"""A longer name is no misspelt one."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` with the fewest edits, the first of several; None if all need
    more than ``EDITS_MAX``, or no fewer than the name has characters."""
    if len(name) > NAME_CHARACTERS:
        return None
    edits_max, best = min(EDITS_MAX, len(name) - 1), None
    for candidate in names:
        edits = _edits(name, candidate, edits_max)
        if edits is not None:
            # Only fewer edits are better.
            edits_max, best = edits - 1, candidate
    return best


def _edits(name: str, other: str, edits_max: int) -> int | None:
    """The characters to insert, delete or replace between two names; None if more than that."""
    if abs(len(name) - len(other)) > edits_max:
        return None
    row = list(range(len(other) + 1))
    for at, character in enumerate(name, 1):
        above, row = row, [at]
        for i, other_character in enumerate(other):
            is_same = character == other_character
            row.append(min(above[i] + (not is_same), above[i + 1] + 1, row[i] + 1))
        if min(row) > edits_max:
            return None
    return row[-1] if row[-1] <= edits_max else None
