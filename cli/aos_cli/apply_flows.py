"""Show the flows in progress that a new manifest would continue or stop (spec/cli.md, C-21a)."""

from __future__ import annotations

from typing import Final

from aos.audit.lens.words import count
from aos.core.decide.flow_gate import FlowGate, StoppedFlow
from aos.manifest.effective import Effective
from aos_cli.cell_names import cell_text
from aos_cli.output import line, note

FLOWS_SHOWN: Final = 10
RULE: Final = "flows_diverge"


def refusal_text(gate: FlowGate) -> str:
    """Return why the manifest is refused, in one sentence."""
    return (
        f"the new code does not fit the history of {len(gate.stopped):,} of "
        f"{count(gate.checked, 'flow')} in progress"
    )


def show_flows(gate: FlowGate, manifest: Effective, *, is_refused: bool) -> None:
    """Print how many flows in progress continue, and those that the new code would stop, or, if it
    is applied all the same, will stop."""
    if gate.continued:
        line(f"{count(gate.continued, 'flow')} in progress: they continue on the new version")
    if is_refused:
        note(f"aos: refused: {refusal_text(gate)}", style="red")
    elif gate.stopped:
        note(f"{count(len(gate.stopped), 'flow')} in progress: the next step ends with a fault")
    for each in gate.stopped[:FLOWS_SHOWN]:
        note(f"  {_stopped_text(each, manifest)}")
    if len(gate.stopped) > FLOWS_SHOWN:
        note(f"  and {len(gate.stopped) - FLOWS_SHOWN:,} more (--json lists them all)")


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


def _stopped_text(each: StoppedFlow, manifest: Effective) -> str:
    cell, found = cell_text(each.cell, manifest), each.divergence
    if found is None:
        return f"{cell}: {each.fault.kind.value}: {each.fault.message}"
    where = found.path or "its end"
    return f"{cell}: at {where} the history has {found.expected}, the new code {found.found}"
