"""The steps of a cell one by one, from the document of its trace: the state before and after each
(spec/page.md, PG-44)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos.errors import BadUsage
from aos.prove.replay.difference import DifferingPlace, difference
from aos.read.views.record_view import Document

_RUNS: Final = ("step", "fault")


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
