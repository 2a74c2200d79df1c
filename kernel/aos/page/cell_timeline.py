"""The timeline of a cell as data, from the document of its trace (spec/page.md, PG-40).

inputs   ● event   ◆ command
steps    │ running   ○ waiting   ■ completed   ▲ failed
effects  ├── from the step that asked to the receipt ──┤
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final

from aos.audit.views.record_view import Document
from aos.manifest.builtins import TIMER

INPUTS_MAX: Final = 200
"""The newest inputs that a timeline shows."""

ROWS_MAX: Final = 40
"""Rows of effects that a picture has; a table shows the others."""

_RECEIPTS: Final = frozenset({"receipt", "kernel_receipt"})


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
