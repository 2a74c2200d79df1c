"""An axis of time in which long gaps are folded (spec/page.md, PG-41)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Final

FOLDED_FROM: Final = 10
"""A gap is folded if it is more than so many times the median gap."""

FOLD_GAPS: Final = 3
"""A folded gap is as wide as so many median gaps."""


@dataclass(frozen=True, slots=True)
class AxisFold:
    """A gap that is folded, from ``x0`` to ``x1`` on the axis."""

    x0: float
    x1: float
    span_ns: int


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places of times between 0 and ``width``. ``times`` are ascending and distinct; ``positions``
    are theirs."""

    times: tuple[int, ...]
    positions: tuple[float, ...]
    folds: tuple[AxisFold, ...]

    @classmethod
    def over(cls, times: Iterable[int], width: float) -> TimeAxis:
        """Return the axis from the first time to the last."""
        sorted_times = tuple(sorted(set(times)))
        gaps = [later - earlier for earlier, later in pairwise(sorted_times)]
        if not gaps:
            return cls(sorted_times, (0.0,) * len(sorted_times), ())
        usual = max(median_low(gaps), 1)
        shown_gaps = [gap if gap <= FOLDED_FROM * usual else FOLD_GAPS * usual for gap in gaps]
        scale, total = width / sum(shown_gaps), 0
        positions = [0.0]
        for gap in shown_gaps:
            total += gap
            positions.append(round(total * scale, 1))
        folds = [
            AxisFold(positions[i], positions[i + 1], gap)
            for i, gap in enumerate(gaps)
            if gap > FOLDED_FROM * usual
        ]
        return cls(sorted_times, tuple(positions), tuple(folds))

    def position_of(self, ns: int) -> float:
        """Return the place of a time; a time outside is at the nearer end."""
        if not self.times or ns <= self.times[0]:
            return 0.0
        if ns >= self.times[-1]:
            return self.positions[-1]
        i = bisect_right(self.times, ns) - 1
        part = (ns - self.times[i]) / (self.times[i + 1] - self.times[i])
        return round(self.positions[i] + part * (self.positions[i + 1] - self.positions[i]), 1)
