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
        return round(LEFT + axis.position_of(ns), 1)

    def marks(timeline_marks: tuple[TimelineMark, ...]) -> tuple[PictureMark, ...]:
        return tuple(PictureMark(at(mark.at_ns), mark) for mark in timeline_marks)

    def bar(effect_bar: EffectBar) -> PictureBar:
        x = at(effect_bar.begin_ns)
        # An effect that is open lasts to the right edge. A timer has a hollow bar instead.
        is_open = effect_bar.end_ns is None and effect_bar.due_ns is None
        end = (
            WIDTH
            if is_open
            else at(timeline.end_ns if effect_bar.end_ns is None else effect_bar.end_ns)
        )
        width = max(LEAST, round(end - x, 1))
        return PictureBar(
            x=x,
            y=ROWS_Y + ROW * effect_bar.row,
            width=width,
            due_x=None if effect_bar.due_ns is None else max(at(effect_bar.due_ns), x + LEAST),
            attempts=marks(effect_bar.attempts),
            frames=marks(effect_bar.frames),
            bar=effect_bar,
        )

    shown_bars = [effect_bar for effect_bar in timeline.bars if effect_bar.row < ROWS_MAX]
    return TimelinePicture(
        width=WIDTH,
        height=ROWS_Y + ROW * timeline.rows() + AXIS,
        inputs=marks(timeline.inputs),
        steps=marks(timeline.steps),
        bars=tuple(map(bar, shown_bars)),
        names=tuple(
            {ROWS_Y + ROW * effect_bar.row: effect_bar.effect for effect_bar in shown_bars}.items()
        ),
        folds=tuple(
            AxisFold(round(LEFT + fold.x0, 1), round(LEFT + fold.x1, 1), fold.span_ns)
            for fold in axis.folds
        ),
        ticks=_ticks(axis),
        left_out=len(timeline.bars) - len(shown_bars),
    )


def _ticks(axis: TimeAxis) -> tuple[tuple[float, int], ...]:
    """Times of the axis that are named, not too close to each other."""
    least = (WIDTH - LEFT - RIGHT) / TICKS
    ticks: list[tuple[float, int]] = []
    for position, ns in zip(axis.positions, axis.times, strict=True):
        if not ticks or position - (ticks[-1][0] - LEFT) >= least:
            ticks.append((round(LEFT + position, 1), ns))
    return tuple(ticks)
