"""The timeline of a cell, from the document of its trace: as data, and as the shapes of an SVG
(spec/page.md, PG-40, PG-41); and its steps one by one, with the state before and after each
(PG-44).

    inputs   ● event   ◆ command
    steps    │ running   ○ waiting   ■ completed   ▲ failed
    effects  ├── from the step that asked to the receipt ──┤
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median_low
from typing import Any, Final

from aos.errors import BadUsage
from aos.manifest.names import TIMER
from aos.prove.replay.difference import DifferingPlace, difference
from aos.read.views.record_view import Document

INPUTS_MAX: Final = 200
"""The newest inputs that a timeline shows."""

ROWS_MAX: Final = 40
"""Rows of effects that a picture has; a table shows the others."""

WIDTH: Final = 1_000
LEFT: Final = 190
"""Room for the names of the lanes."""

RIGHT: Final = 44
ROWS_Y: Final = 82
ROW: Final = 26
AXIS: Final = 26
LEAST: Final = 3.0
"""A bar is at least so wide."""

TICKS: Final = 5

FOLDED_FROM: Final = 10
"""A gap is folded if it is more than so many times the median gap."""

FOLD_GAPS: Final = 3
"""A folded gap is as wide as so many median gaps."""

_RECEIPTS: Final = frozenset({"receipt", "kernel_receipt"})

_RUNS: Final = ("step", "fault")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """A point in time. ``kind`` is that of its node in the trace."""

    kind: str
    seq: int
    at_ns: int
    status: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBar:
    """An effect from its request to its receipt. ``end_ns`` is None while it is open; ``due_ns`` is
    the time for which a timer is set. ``row`` counts from 0; the bars of a row are
    of one effect and do not overlap."""

    effect: str
    intent: str
    seq: int
    status: str
    begin_ns: int
    end_ns: int | None
    due_ns: int | None = None
    attempts: tuple[TimelineMark, ...] = ()
    frames: tuple[TimelineMark, ...] = ()
    settled_by: int | None = None
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTimeline:
    """Everything on a timeline, each part in the order of time."""

    earlier: int
    inputs: tuple[TimelineMark, ...]
    steps: tuple[TimelineMark, ...]
    bars: tuple[EffectBar, ...]
    end_ns: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened."""
        return not self.inputs and not self.steps

    def rows(self) -> int:
        """Return the number of rows of effects in a picture."""
        return min(max((bar.row + 1 for bar in self.bars), default=0), ROWS_MAX)

    def times(self) -> Iterator[int]:
        """Yield every time that the picture must have a place for."""
        for mark in (*self.inputs, *self.steps):
            yield mark.at_ns
        for bar in self.bars:
            yield bar.begin_ns
            yield from (time_ns for time_ns in (bar.end_ns, bar.due_ns) if time_ns is not None)
            for mark in (*bar.attempts, *bar.frames):
                yield mark.at_ns
        yield self.end_ns

    def to_document(self) -> Document:
        """Return the timeline as plain data."""
        return asdict(self)


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


@dataclass(frozen=True, slots=True)
class AxisFold:
    """A gap that is folded, from ``x0`` to ``x1`` on the axis."""

    x0: float
    x1: float
    span_ns: int


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


def cell_timeline(trace: Document, *, inputs_max: int = INPUTS_MAX) -> CellTimeline:
    """Return the timeline of a cell, whose trace is a list of its inputs (A-45). An open effect
    lasts until the last time that the trace has."""
    roots = trace["roots"]
    earlier = trace["earlier"] + max(0, len(roots) - inputs_max)
    inputs: list[TimelineMark] = []
    steps: list[TimelineMark] = []
    bars: dict[str, EffectBar] = {}
    for root in roots[-inputs_max:]:
        mark = _mark(root)
        bar = bars.get(root["intent"] or "")
        if root["kind"] in _RECEIPTS:
            if bar is not None:
                end_ns = max(bar.begin_ns, mark.at_ns)
                bars[bar.intent] = replace(bar, end_ns=end_ns, settled_by=mark.seq)
        elif root["kind"] == "attempt" and bar is not None:
            bars[bar.intent] = replace(bar, attempts=(*bar.attempts, mark))
        elif root["kind"] == "stream" and bar is not None:
            bars[bar.intent] = replace(bar, frames=(*bar.frames, mark))
        else:
            inputs.append(mark)
        for run in root["children"]:
            if run["kind"] not in ("step", "fault"):
                continue
            steps.append(_mark(run))
            for child in run["children"]:
                if child["kind"] == "intent":
                    bars[child["intent"]] = _bar(child)
    end_ns = max((mark.at_ns for mark in (*inputs, *steps)), default=0)
    end_ns = max([end_ns, *(effect_bar.end_ns or 0 for effect_bar in bars.values())])
    return CellTimeline(
        earlier=earlier,
        inputs=tuple(inputs),
        steps=tuple(steps),
        bars=_in_rows(list(bars.values()), end_ns),
        end_ns=end_ns,
    )


def _mark(node: Document) -> TimelineMark:
    return TimelineMark(
        kind=node["kind"],
        seq=node["seq"],
        at_ns=node["at_ns"] or 0,
        status=node["status"],
        name=node["note"] or "" if node["kind"] in ("step", "fault") else node["subject"] or "",
    )


def _bar(node: Document) -> EffectBar:
    due_ns = None
    if node["subject"] == TIMER and isinstance(node["value"], dict):
        deliver_ns = node["value"].get("deliver_at_ns")
        due_ns = max(deliver_ns, node["at_ns"]) if isinstance(deliver_ns, int) else None
    return EffectBar(
        effect=node["subject"],
        intent=node["intent"],
        seq=node["seq"],
        status=node["status"],
        begin_ns=node["at_ns"],
        end_ns=None,
        due_ns=due_ns,
    )


def _in_rows(bars: list[EffectBar], end_ns: int) -> tuple[EffectBar, ...]:
    """Give each bar the first row of its effect in which it has room."""
    rows: list[tuple[str, int]] = []
    placed_bars = []
    for bar in sorted(
        bars, key=lambda effect_bar: (effect_bar.begin_ns, effect_bar.seq, effect_bar.intent)
    ):
        last_ns = max(end_ns if bar.end_ns is None else bar.end_ns, bar.due_ns or 0)
        row = next(
            (
                number
                for number, (effect, end) in enumerate(rows)
                if effect == bar.effect and end < bar.begin_ns
            ),
            len(rows),
        )
        rows[row : row + 1] = [(bar.effect, last_ns)]
        placed_bars.append(replace(bar, row=row))
    return tuple(placed_bars)


def timeline_picture(timeline: CellTimeline) -> TimelinePicture:
    """Lay a timeline out as the shapes of an SVG (PG-41). The same timeline always has the same
    picture."""
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


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """An axis of time in which long gaps are folded (PG-41): places of times between 0 and
    ``width``. ``times`` are ascending and distinct; ``positions`` are theirs."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStep:
    """One step or fault of a cell.

    ``input`` is the node of the trace that it took, ``outputs`` are those of its events and
    effects. ``state_before`` is the state that the step before left, None for the first step that
    the trace has; ``state_after`` is None for a fault and for a deleted cell. ``differences`` are
    the first 16 places that differ; ``is_whole`` is false where the trace has only the hash of a
    large state.
    """

    number: int
    count: int
    node: Document
    input: Document
    state_before: Any
    state_after: Any
    differences: tuple[DifferingPlace, ...]
    outputs: tuple[Document, ...]
    is_whole: bool
    has_before: bool

    @property
    def seq(self) -> int:
        """The record of the step."""
        seq: int = self.node["seq"]
        return seq


def cell_step(trace: Document, number: int | None) -> CellStep | None:
    """Return step ``number`` of those that a cell's trace has, counted from 1, by default the last;
    None if it has none.

    Raises:
        BadUsage: There is no step with this number.
    """
    runs = [
        (root, run) for root in trace["roots"] for run in root["children"] if run["kind"] in _RUNS
    ]
    if not runs:
        return None
    number = len(runs) if number is None else number
    if not 1 <= number <= len(runs):
        raise BadUsage(f"step: expected 1 to {len(runs)}, found {number}")
    root, run = runs[number - 1]
    states = [node["value"] for _, node in runs[: number - 1] if node["kind"] == "step"]
    state_before = states[-1] if states else None
    state_after = run["value"] if run["kind"] == "step" else None
    return CellStep(
        number=number,
        count=len(runs),
        node=run,
        input=root,
        state_before=state_before,
        state_after=state_after,
        differences=_differences(state_before, state_after)
        if states and run["kind"] == "step"
        else (),
        outputs=tuple(run["children"]),
        is_whole=not any(_is_hash(state) for state in (state_before, state_after)),
        has_before=bool(states) or (number == 1 and not trace["earlier"]),
    )


def _differences(state_before: Any, state_after: Any) -> tuple[DifferingPlace, ...]:
    comparison = difference("state", state_before, state_after)
    if not comparison.places and state_before != state_after:
        return (DifferingPlace(path="$", recorded=state_before, recomputed=state_after),)
    return comparison.places


def _is_hash(state: Any) -> bool:
    return isinstance(state, dict) and any(
        name in state for name in ("$large", "$erased", "$unreadable")
    )
