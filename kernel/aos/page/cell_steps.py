"""The steps of a cell one by one, from the document of its trace: the state before and after each
(spec/page.md, PG-44)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos.audit.replay.difference import DifferingPlace, difference
from aos.audit.views.record_view import Document
from aos.errors import BadUsage

_RUNS: Final = ("step", "fault")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStep:
    """One step or fault of a cell.

    ``input`` is the node of the trace that it took, ``made`` are those of its events and effects.
    ``before`` is the state that the step before left, None for the first step that the trace has;
    ``after`` is None for a fault and for a deleted cell. ``places`` are the first 16 places that
    differ; ``is_whole`` is false where the trace has only the hash of a large state.
    """

    number: int
    count: int
    node: Document
    input: Document
    before: Any
    after: Any
    places: tuple[DifferingPlace, ...]
    made: tuple[Document, ...]
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
    found = [
        (root, run) for root in trace["roots"] for run in root["children"] if run["kind"] in _RUNS
    ]
    if not found:
        return None
    number = len(found) if number is None else number
    if not 1 <= number <= len(found):
        raise BadUsage(f"step: expected 1 to {len(found)}, found {number}")
    root, run = found[number - 1]
    states = [each["value"] for _, each in found[: number - 1] if each["kind"] == "step"]
    before = states[-1] if states else None
    after = run["value"] if run["kind"] == "step" else None
    return CellStep(
        number=number,
        count=len(found),
        node=run,
        input=root,
        before=before,
        after=after,
        places=_places(before, after) if states and run["kind"] == "step" else (),
        made=tuple(run["children"]),
        is_whole=not any(_is_hash(each) for each in (before, after)),
        has_before=bool(states) or (number == 1 and not trace["earlier"]),
    )


def _places(before: Any, after: Any) -> tuple[DifferingPlace, ...]:
    found = difference("state", before, after)
    if not found.places and before != after:
        return (DifferingPlace(path="$", recorded=before, recomputed=after),)
    return found.places


def _is_hash(state: Any) -> bool:
    return isinstance(state, dict) and any(
        name in state for name in ("$large", "$erased", "$unreadable")
    )
