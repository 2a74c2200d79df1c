"""Show stored states before and after a migration: ``aos apply --dry-run --show`` (C-21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aos.audit.lens.words import compact
from aos_cli.apply_blockers import cell_text
from aos_cli.output import line


def show_states(states: Sequence[Mapping[str, Any]]) -> None:
    """Print each state of a report before and after, and the places that differ."""
    if states:
        line("states, those that fail first", style="bold")
    for state in states:
        line(f"  {cell_text(state['cell'])}")
        line(f"    before   {compact(state['before'])}")
        if state["fault"] is not None:
            fault = state["fault"]
            line(f"    fails    {fault['kind']}: {fault['message']}", style="red")
            continue
        line(f"    after    {compact(state['after'])}")
        for change in state["changed"]:
            was, now = compact(change["before"]), compact(change["after"])
            line(f"    changed  {change['path']}: {was} -> {now}", style="yellow")
