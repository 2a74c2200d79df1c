"""The measurements: workloads, sizes of worlds, and the points at which each is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Workload = Literal["counter", "steps", "orders", "keeper", "flow", "sleepers"]
Cells = Literal["many", "hot", "line", "fresh", "stream"]

WORKLOADS: Final[tuple[Workload, ...]] = ("counter", "steps", "orders")
"""The workloads of `make bench`; ``keeper`` is for cells at rest, ``flow`` and ``sleepers`` are for
flows."""
IN_FLIGHT: Final = (1, 16, 64, 256)

SIZES: Final[dict[Workload, tuple[int, ...]]] = {
    "counter": (1_000, 10_000, 100_000),
    "steps": (1_000, 10_000, 100_000),
    "orders": (1_000, 10_000),
}
"""Cells that a world has before it is measured. 100,000 closed orders take minutes to make."""

JOURNAL_ITEMS: Final[dict[Workload, int]] = {"counter": 10_000, "steps": 3_000, "orders": 500}
"""Items of the journal that is run live, restarted from and replayed."""

BATCH: Final = 512
"""Events of one request where a point is a stream of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One load. ``cells``:

    many     each item is sent to the next of the existing cells
    hot      all are sent to one cell; runs of three steps overlap in it
    line     all are sent to one cell, which runs one at a time
    fresh    each creates its own cell
    stream   as ``many``, ``in_flight`` batches of 512 events, each sent when one was accepted

    ``is_busy``: a thread of the same process runs Python all the time. ``items``: end the load
    after that many items instead of after ``seconds``.
    """

    in_flight: int
    cells: Cells = "many"
    is_busy: bool = False
    seconds: float = 2.0
    warm_s: float = 0.4
    items: int | None = None


def points(
    workload: Workload,
    *,
    is_smallest: bool,
    in_flight: tuple[int, ...] = IN_FLIGHT,
    seconds: float = 2.0,
    warm_s: float = 0.4,
) -> tuple[Point, ...]:
    """The points of one world: all kinds in the smallest, many cells alone in larger ones."""

    def point(number: int, cells: Cells = "many", *, is_busy: bool = False) -> Point:
        return Point(in_flight=number, cells=cells, is_busy=is_busy, seconds=seconds, warm_s=warm_s)

    found = [point(each) for each in in_flight if is_smallest or each != 16]
    if not is_smallest:
        return tuple(found)
    found += [point(each, "hot") for each in in_flight]
    if workload == "steps":
        found += [point(each, "line") for each in in_flight if each <= 64]
    if workload == "counter":
        found.append(point(3, "stream"))
    found += [point(each, is_busy=True) for each in in_flight if each in {1, 64}]
    return tuple(found)
