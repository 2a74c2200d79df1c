"""Report each cause of a failure once, then only its count (X-18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final

CAUSES_MAX: Final = 1000
"""Causes that are remembered. With one more, all are forgotten and reported again."""


class Causes:
    """Counts how often each cause came up."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def count(self, cause: Hashable) -> int | None:
        """Count ``cause``. Return the count if it is to be reported now, which is at 1, 10, 100
        and so on; None otherwise."""
        if cause not in self._counts and len(self._counts) >= CAUSES_MAX:
            self._counts.clear()
        self._counts[cause] += 1
        count = self._counts[cause]
        return count if str(count).strip("0") == "1" else None
