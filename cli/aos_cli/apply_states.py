"""Show stored states before and after a migration: ``aos apply --dry-run --show`` (C-21)."""

from __future__ import annotations

from collections.abc import Sequence

from aos.audit.lens.lens import shown
from aos.audit.lens.words import compact
from aos.audit.replay.difference import difference
from aos.core.decide.migration import Converted
from aos.core.journal.faults import Fault
from aos.manifest.effective import Effective
from aos_cli.cell_names import cell_document, cell_text
from aos_cli.output import line


def states_document(states: Sequence[Converted], new: Effective) -> list[dict[str, object]]:
    return [_state(each, new) for each in states]


def show_states(states: Sequence[Converted], new: Effective) -> None:
    """Print each state before and after, and the places that differ."""
    if states:
        line("states, those that fail first", style="bold")
    for each in states:
        found = _state(each, new)
        line(f"  {cell_text(each.cell, new)}")
        line(f"    before   {compact(found['before'])}")
        if isinstance(each.after, Fault):
            line(f"    fails    {each.after.kind.value}: {each.after.message}", style="red")
            continue
        line(f"    after    {compact(found['after'])}")
        for path, before, after in _changed(found):
            line(f"    changed  {path}: {compact(before)} -> {compact(after)}", style="yellow")


def _state(each: Converted, new: Effective) -> dict[str, object]:
    before = shown(each.source.state, each.before)
    found: dict[str, object] = {"cell": cell_document(each.cell, new), "before": before}
    if isinstance(each.after, Fault):
        fault = {"kind": each.after.kind.value, "message": each.after.message}
        return {**found, "after": None, "fault": fault, "changed": []}
    after = shown(new.workflows[each.cell[0]].state, each.after)
    found |= {"after": after, "fault": None}
    return {
        **found,
        "changed": [
            {"path": path, "before": old, "after": new} for path, old, new in _changed(found)
        ],
    }


def _changed(found: dict[str, object]) -> list[tuple[str, object, object]]:
    between = difference("$", found["before"], found["after"])
    if between.places:
        return [(place.path, place.recorded, place.recomputed) for place in between.places]
    return [] if found["before"] == found["after"] else [("$", found["before"], found["after"])]
