"""Read an instance of a flow from the state of a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.core.decide.left_behind import next_under
from aos.core.journal.inputs import PARKED
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, slot_bytes
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import manifest_under, workflow_of
from aos.errors import Damage
from aos.flow.declaration import FlowDeclaration, declared_flow
from aos.flow.flow_state import FLOW_STATUSES, LIVE, PENDING, FlowState
from aos.manifest.effective import Effective
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

FAULTED: Final = "faulted"
CLOSED: Final = "closed"
SHOWN_STATUSES: Final = (*FLOW_STATUSES, FAULTED, CLOSED, PARKED)
"""The statuses of a flow in lists: its own, or ``faulted`` if a fault stopped it, or ``closed`` if
an operator ended it, or ``parked`` if it waits for an effect that does not run before an operator
acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFlow:
    """An instance of a flow. ``state`` is None before its first step, and where it cannot be read:
    then ``problem`` is the reason. ``manifest`` is the one under which it runs next."""

    cell: Cell
    declaration: FlowDeclaration
    manifest: Effective
    state: FlowState | None
    problem: str | None
    is_parked: bool

    @property
    def id(self) -> CellId:
        return self.cell.id

    @property
    def status(self) -> str:
        """One of ``SHOWN_STATUSES``."""
        if self.cell.fault is not None:
            return FAULTED
        state_status = PENDING if self.state is None else self.state.status
        if state_status not in LIVE:
            return state_status
        if self.cell.declared is not None:
            return CLOSED
        return PARKED if self.is_parked else state_status


def read_flow(state: State, cell: Cell, read: BlobReader) -> SeenFlow | None:
    """Read an instance; None if its workflow is no flow. Never raises for what is stored: a state
    that cannot be read is a ``problem``."""
    if workflow_of(state, cell) is None:
        return None
    manifest = manifest_under(state, next_under(state, cell, read))
    declaration = declared_flow(manifest, cell.id[0])
    if declaration is None:
        return None
    flow_state, problem = None, None
    if cell.state is not None:
        try:
            data = slot_bytes(cell.state, read)
            flow_state = FlowState.read(declaration.workflow.state.completed(data))
        except (Damage, ValueProblem) as error:
            problem = str(error)
    return SeenFlow(
        cell=cell, declaration=declaration, manifest=manifest, state=flow_state, problem=problem,
        is_parked=any(_is_parked(state, intent) for intent in cell.inflight),
    )  # fmt: skip


def _is_parked(state: State, intent: Hash) -> bool:
    halt = state.halt(state.intents[intent])
    return halt is not None and halt.phase == PARKED
