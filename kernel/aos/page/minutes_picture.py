"""The records of each minute of the last hour as bars (spec/page.md, PG-104). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.audit.views.minute_view import MINUTE_NS, MINUTES

BAR_WIDTH: Final = 10
HEIGHT: Final = 60
LEAST: Final = 2
"""Height of a bar with few records."""


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """The bar of one minute; the minute begins at ``at_ns``."""

    x: int
    y: int
    height: int
    at_ns: int
    records: int


@dataclass(frozen=True, slots=True)
class MinutesPicture:
    """The bars of the last hour. Its last minute is that of the latest record."""

    bars: tuple[MinuteBar, ...]
    records_max: int
    total: int
    width: int = MINUTES * BAR_WIDTH
    height: int = HEIGHT
    bar_width: int = BAR_WIDTH - 2


def minutes_picture(minutes: Sequence[Mapping[str, Any]]) -> MinutesPicture | None:
    """Return the bars of the minutes of a document; None if it has none."""
    if not minutes:
        return None
    records_max = max(row["records"] for row in minutes)
    first_ns = minutes[-1]["at_ns"] - (MINUTES - 1) * MINUTE_NS
    bars = []
    for minute in minutes:
        height = max(LEAST, HEIGHT * minute["records"] // records_max)
        x = (minute["at_ns"] - first_ns) // MINUTE_NS * BAR_WIDTH
        bars.append(MinuteBar(x, HEIGHT - height, height, minute["at_ns"], minute["records"]))
    return MinutesPicture(tuple(bars), records_max, sum(row["records"] for row in minutes))
