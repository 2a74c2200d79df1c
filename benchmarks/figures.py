"""Samples -> figures: percentiles, rates and ratios. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of ``values`` do not exceed.

    One of the values themselves, never something between two of them.
    """
    if not values:
        raise ValueError("a percentile of nothing")
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share from 0 to 1, found {share}")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


@dataclass(frozen=True, slots=True)
class Spread:
    """Two percentiles, in ms."""

    p50: float
    p99: float

    @classmethod
    def of_ns(cls, values: Sequence[int]) -> Spread | None:
        """None where there are no values."""
        if not values:
            return None
        return cls(percentile(values, 0.5) / NS_PER_MS, percentile(values, 0.99) / NS_PER_MS)


@dataclass(slots=True)
class Samples:
    """When each item was sent, known to be durable and finished, in ns of one clock."""

    sent: dict[int, int] = field(default_factory=dict)
    accepted: list[tuple[int, int]] = field(default_factory=list)
    finished: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a window of time. ``rate`` is finished items per second; with ``is_whole`` the
    window covers the whole run, from the first to the last item."""

    seconds: float
    items: int
    rate: float
    accept: Spread | None
    finish: Spread | None
    is_whole: bool = False


def summary(samples: Samples, start_ns: int, end_ns: int) -> Summary:
    """Figures of what was accepted and finished from ``start_ns`` up to, not at, ``end_ns``.

    An item that was sent before the window counts with its whole time.
    """
    if end_ns <= start_ns:
        raise ValueError("a window without time")
    accepted = _times(samples.sent, samples.accepted, start_ns, end_ns)
    finished = _times(samples.sent, samples.finished, start_ns, end_ns)
    seconds = (end_ns - start_ns) / NS_PER_S
    return Summary(
        seconds=seconds,
        items=len(finished),
        rate=len(finished) / seconds,
        accept=Spread.of_ns(accepted),
        finish=Spread.of_ns(finished),
    )


def measured(
    samples: Samples, *, start_ns: int, warm_s: float, seconds: float, callers: int
) -> Summary:
    """Figures of the ``seconds`` that follow ``warm_s`` after ``start_ns``.

    Where not every caller finished an item in them, chance would decide: then of everything.
    """
    first_ns = start_ns + int(warm_s * NS_PER_S)
    found = summary(samples, first_ns, first_ns + int(seconds * NS_PER_S))
    return found if found.items >= callers else whole(samples, start_ns)


def whole(samples: Samples, start_ns: int) -> Summary:
    """Figures from ``start_ns`` to the last item's end.

    Raises:
        ValueError: Nothing was finished.
    """
    if not samples.finished:
        raise ValueError("nothing was finished")
    return replace(
        summary(samples, start_ns, max(at for _, at in samples.finished) + 1), is_whole=True
    )


def as_fields(found: Summary) -> dict[str, Any]:
    """The fields of a summary in a file of figures."""
    return {
        "items": found.items,
        "seconds": found.seconds,
        "rate": found.rate,
        "is_whole": found.is_whole,
        "accept_ms": None if found.accept is None else asdict(found.accept),
        "finish_ms": None if found.finish is None else asdict(found.finish),
    }


def _times(
    sent: Mapping[int, int], ended: Sequence[tuple[int, int]], start_ns: int, end_ns: int
) -> list[int]:
    return [at - sent[item] for item, at in ended if start_ns <= at < end_ns]


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """``ours / theirs``; None where either is missing or zero."""
    if not ours or not theirs:
        return None
    return ours / theirs
