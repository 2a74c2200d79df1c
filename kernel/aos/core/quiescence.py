"""State -> what stands in the way of a new manifest (spec/kernel.md, K-61 and K-70)."""

from __future__ import annotations

from aos.core.answers import Blocker
from aos.core.state import Cell, State

TERMINAL = ("completed", "failed")


def is_terminal(state: State, cell: Cell) -> bool:
    """Whether nothing more is owed to this instance, as its workflow's ``lifecycle`` reads it."""
    if cell.status in TERMINAL:
        return True
    workflow = state.manifest.workflows.get(cell.id[0]) if state.manifest else None
    if workflow is not None and workflow.lifecycle == "explicit":
        return False
    return not cell.mailbox and not cell.inflight


def blockers(state: State) -> tuple[Blocker, ...]:
    """Every instance that is not terminal, every open intent, every cell with queued mail."""
    found = [
        Blocker(kind="instance_is_not_terminal", cell=cell.id, detail=f"status {cell.status}")
        for cell in state.cells.values()
        if not is_terminal(state, cell)
    ]
    found += [
        Blocker(
            kind="intent_is_open",
            cell=intent.cell,
            detail=f"{intent.effect.name} of record {intent.seq}",
        )
        for intent in state.intents.values()
    ]
    found += [
        Blocker(
            kind="mail_is_queued", cell=id, detail=f"mail to run: {len(state.cells[id].mailbox)}"
        )
        for id in state.ring
    ]
    return tuple(found)
