"""The timeline of a cell as the shapes of an SVG (spec/page.md, PG-41)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.page.cell_timeline import ROWS_MAX, CellTimeline, EffectBar, TimelineMark
from aos.page.time_axis import AxisFold, TimeAxis

WIDTH: Final = 1_000
LEFT: Final = 190
"""Room for the names of the lanes."""

RIGHT: Final = 44
INPUTS_Y: Final = 22
STEPS_Y: Final = 54
ROWS_Y: Final = 82
ROW: Final = 26
BAR: Final = 16
AXIS: Final = 26
LEAST: Final = 3.0
"""A bar is at least so wide."""

TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class PictureMark:
    """A mark at its place."""

    x: float
    mark: TimelineMark


@dataclass(frozen=True, slots=True)
class PictureBar:
    """A bar at its place. ``due_x`` is the end of the hollow bar of a timer; ``attempts`` are the
    places where attempts begin, ``frames`` those of stream frames."""

    x: float
    y: float
    width: float
    due_x: float | None
    attempts: tuple[PictureMark, ...]
    frames: tuple[PictureMark, ...]
    bar: EffectBar


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePicture:
    """A timeline of ``width`` by ``height`` units. ``names`` are the effects of
    the rows, ``left_out`` bars are in the table alone."""

    width: int
    height: int
    inputs: tuple[PictureMark, ...]
    steps: tuple[PictureMark, ...]
    bars: tuple[PictureBar, ...]
    names: tuple[tuple[int, str], ...]
    folds: tuple[AxisFold, ...]
    ticks: tuple[tuple[float, int], ...]
    left_out: int


def timeline_picture(timeline: CellTimeline) -> TimelinePicture:
    """Lay a timeline out. The same timeline always has the same picture."""
    axis = TimeAxis.over(timeline.times(), WIDTH - LEFT - RIGHT)

    def at(ns: int) -> float:
        return round(LEFT + axis.place(ns), 1)

    def marks(found: tuple[TimelineMark, ...]) -> tuple[PictureMark, ...]:
        return tuple(PictureMark(at(each.at_ns), each) for each in found)

    def bar(each: EffectBar) -> PictureBar:
        x = at(each.begin_ns)
        # An effect that is open lasts to the right edge. A timer has a hollow bar instead.
        is_open = each.end_ns is None and each.due_ns is None
        end = WIDTH if is_open else at(timeline.end_ns if each.end_ns is None else each.end_ns)
        width = max(LEAST, round(end - x, 1))
        return PictureBar(
            x=x,
            y=ROWS_Y + ROW * each.row,
            width=width,
            due_x=None if each.due_ns is None else max(at(each.due_ns), x + LEAST),
            attempts=marks(each.attempts),
            frames=marks(each.frames),
            bar=each,
        )

    shown = [each for each in timeline.bars if each.row < ROWS_MAX]
    return TimelinePicture(
        width=WIDTH,
        height=ROWS_Y + ROW * timeline.rows() + AXIS,
        inputs=marks(timeline.inputs),
        steps=marks(timeline.steps),
        bars=tuple(map(bar, shown)),
        names=tuple({ROWS_Y + ROW * each.row: each.effect for each in shown}.items()),
        folds=tuple(
            AxisFold(round(LEFT + each.x0, 1), round(LEFT + each.x1, 1), each.span_ns)
            for each in axis.folds
        ),
        ticks=_ticks(axis),
        left_out=len(timeline.bars) - len(shown),
    )


def _ticks(axis: TimeAxis) -> tuple[tuple[float, int], ...]:
    """Times of the axis that are named, not too close to each other."""
    least = (WIDTH - LEFT - RIGHT) / TICKS
    found: list[tuple[float, int]] = []
    for place, ns in zip(axis.places, axis.times, strict=True):
        if not found or place - (found[-1][0] - LEFT) >= least:
            found.append((round(LEFT + place, 1), ns))
    return tuple(found)
