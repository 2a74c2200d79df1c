"""Show the flows in progress that a new manifest would continue or stop (spec/cli.md, C-21a)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.audit.lens.words import count
from aos_cli.apply_blockers import cell_text
from aos_cli.output import line, note

FLOWS_SHOWN: Final = 10
RULE: Final = "flows_diverge"

Gate = Mapping[str, Any]
"""The flows of a report (A-90)."""


def refusal_text(gate: Gate) -> str:
    """Return why the manifest is refused, in one sentence."""
    return (
        f"the new code does not fit the history of {len(gate['diverge']):,} of "
        f"{count(gate['checked'], 'flow')} in progress"
    )


def show_flows(gate: Gate, *, is_refused: bool) -> None:
    """Print how many flows in progress continue, and those that the new code would stop, or, if it
    is applied all the same, will stop."""
    stopped = gate["diverge"]
    if gate["go_on"]:
        line(f"{count(gate['go_on'], 'flow')} in progress: they continue on the new version")
    if is_refused:
        note(f"aos: refused: {refusal_text(gate)}", style="red")
    elif stopped:
        note(f"{count(len(stopped), 'flow')} in progress: the next step ends with a fault")
    for flow in stopped[:FLOWS_SHOWN]:
        note(f"  {_stopped_text(flow)}")
    if len(stopped) > FLOWS_SHOWN:
        note(f"  and {len(stopped) - FLOWS_SHOWN:,} more (--json lists them all)")


def show_advice(command: str) -> None:
    """Print what to do about flows that diverge; ``command`` applies the same manifest."""
    note("either keep the old form for flows in progress, with cx.version in the code")
    note(
        'or let them end on their own code: leave out upgrade = "in_place" in the new version, and '
        f"{command} --mode pin"
    )
    note(
        f"or {command} --allow-diverged: each of them stops with a fault at its next step, until "
        "code that fits its history is applied and aos flow resume continues it"
    )


def _stopped_text(flow: Mapping[str, Any]) -> str:
    cell = cell_text(flow["cell"])
    if flow["expected"] is None and flow["path"] is None:
        return f"{cell}: {flow['fault']['kind']}: {flow['fault']['message']}"
    path = flow["path"] or "its end"
    return f"{cell}: at {path} the history has {flow['expected']}, the new code {flow['found']}"
