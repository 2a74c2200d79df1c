"""Find a flow in the state of a world, read an instance, and explain what it waits for, with the
path of each operation and the next command (spec/audit.md, A-5, A-51b)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aos.core.decide.left_behind import next_under
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.inputs import PARKED
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, slot_bytes
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import State
from aos.core.state.version import manifest_under, workflow_of
from aos.errors import BadUsage, Damage
from aos.flow.declaration import FlowDeclaration, declared_flow, declared_flows
from aos.flow.failure import FlowDivergence
from aos.flow.flow_state import (
    CANCELED,
    ENDED,
    FAILED,
    FLOW_STATUSES,
    LIVE,
    PENDING,
    STUCK,
    FlowState,
)
from aos.flow.history import CHILD, MESSAGE, RESUME, Wait, waits
from aos.manifest.effective import FLOW_STATE, Effective
from aos.read.lens.lookup import find_named, names_text, spells, workflow_names
from aos.read.lens.words import as_json, count, short, span_text, time_text
from aos.read.views.reason import Reason, command_words
from aos.shell_text import shell_word
from aos.values.errors import ValueProblem

FAULTED: Final = "faulted"
CLOSED: Final = "closed"
SHOWN_STATUSES: Final = (*FLOW_STATUSES, FAULTED, CLOSED, PARKED)
"""The statuses of a flow in lists: its own, or ``faulted`` if a fault stopped it, or ``closed`` if
an operator ended it, or ``parked`` if it waits for an effect that does not run before an operator
acts."""

MESSAGES_SAID: Final = 8
"""How many messages and children that a flow waits for are described."""
CANCELED_CALL: Final = " (the call is canceled, and undone if that flow completes)"


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
        is_parked=any(_is_parked(state, intent) for intent in state.intents.of(cell)),
    )  # fmt: skip


def _is_parked(state: State, intent: OpenIntent) -> bool:
    halt = state.halt(intent)
    return halt is not None and halt.phase == PARKED


def flow_names(state: State) -> list[str]:
    """Return the flows of the manifests that instances may run under, by name."""
    if state.manifest is None:
        return []
    manifests = (manifest_under(state, era.seq) for era in state.eras.all)
    return sorted({name for manifest in manifests for name in declared_flows(manifest)})


def find_flow(state: State, word: str) -> str:
    """Find a flow by its name, with the rules of ``find_workflow``, among the flows alone.

    Raises:
        BadUsage: No flow matches, or several do; or the word names a workflow that is no flow.
    """
    names = flow_names(state)
    other_names = [name for name in workflow_names(state) if name not in names]
    if not any(spells(word, name) for name in names):
        for name in other_names:
            if spells(word, name):
                raise BadUsage(
                    f"{name} is no flow: its state is not {FLOW_STATE}",
                    expected="one of " + names_text(names) if names else None,
                    hint="its instances: aos inspect cells; its events: aos send",
                )
    return find_named("flow", word, names, "the manifest in force has no flow")


def find_message(flow: FlowDeclaration, word: str) -> str:
    """Find a message that a flow listens for by its schema, with the rules of ``find_workflow``.

    Raises:
        BadUsage: The flow listens for no such message, or for several.
    """
    hint = f"{flow.name} listens for no message"
    return find_named(f"message of {flow.name}", word, sorted(flow.messages), hint)


def diverged_advice(fault: Fault) -> str | None:
    """Return the remedy for a flow whose code no longer fits its history; None for another fault.
    The message of the fault has the path and the difference."""
    divergence = FlowDivergence.read(fault.detail) if fault.kind is FaultKind.GUEST else None
    if divergence is None:
        return None
    return (
        "apply code that fits the history (keep the old form for flows in progress with "
        "cx.version, or let them end on their own code with aos apply --mode pin)"
    )


def flow_reasons(flow: SeenFlow, words: str, *, now_ns: int) -> Iterator[Reason]:
    """Yield what a flow waits for besides its open effects, or how it ended. ``words`` name its
    cell in a command."""
    state = flow.state
    if flow.problem is not None:
        yield Reason(
            kind="idle",
            text=f"its state cannot be read: {flow.problem}",
            is_stuck=True,
            next="aos verify",
        )
    if state is None or state.has_ended or flow.status == CLOSED:
        return
    if state.history is None:
        yield Reason(
            kind="idle",
            text=f"its history cannot be read: {state.history_problem}",
            is_stuck=True,
            next="show it with the release of aos that fits its module",
        )
        return
    other_waits = [
        awaited for awaited in waits(state.history) if awaited.kind in (MESSAGE, CHILD, RESUME)
    ]
    for wait in other_waits[:MESSAGES_SAID]:
        yield _wait_reason(flow, state, wait, words, now_ns)
    if len(other_waits) > MESSAGES_SAID:
        yield Reason(
            kind="message",
            text=f"and at {len(other_waits) - MESSAGES_SAID:,} operations more",
            is_stuck=False,
            next=f"aos flow show {words}",
        )


def _wait_reason(flow: SeenFlow, state: FlowState, wait: Wait, words: str, now_ns: int) -> Reason:
    since = span_text(max(0, now_ns - wait.since_ns))
    if wait.kind == MESSAGE:
        until = "" if wait.until_ns is None else f", until {time_text(wait.until_ns)}"
        # Names of the flow's own state, which no manifest has checked.
        names = map(shell_word, wait.schemas)
        sends = " or ".join(f"aos flow signal {words} {schema} JSON" for schema in names)
        return Reason(
            kind="message",
            text=f"waits at {wait.path} for {' or '.join(wait.schemas)}: none for {since}{until}",
            is_stuck=False,
            next=sends,
        )
    if wait.kind == CHILD:
        assert wait.workflow is not None
        child = command_words(wait.workflow, None)
        if wait.key is not None:
            workflow = flow.manifest.workflows.get(wait.workflow)
            key = as_json(None if workflow is None else workflow.key, wait.key)
            child = command_words(wait.workflow, key)
        return Reason(
            kind="child",
            text=f"waits at {wait.path} for the result of {child}: none for {since}"
            + (CANCELED_CALL if wait.is_canceled else ""),
            is_stuck=False,
            next=f"aos flow show {child}",
        )
    stuck = _stuck_failure(state, wait)
    return Reason(
        kind="stuck",
        text=f"stuck since {since}: the compensation {wait.path} ({wait.effect}) failed for good "
        f"after {wait.attempt} attempts{stuck}",
        is_stuck=True,
        next=f"correct its executor, then aos flow resume {words} (or, to leave that step as it "
        f"is: aos flow resume {words} --skip)",
    )


def _stuck_failure(state: FlowState, wait: Wait) -> str:
    assert state.history is not None
    for compensation in state.history.compensations:
        if wait.path.startswith(compensation.path) and compensation.failure is not None:
            return f": {compensation.failure.text}"
    return ""


def declared_reason(flow: SeenFlow, words: str) -> Reason | None:
    """Return why a flow has the status that it declared; None if its state does not say."""
    state = flow.state
    if state is None or state.status not in (*ENDED, STUCK, PENDING):
        return None
    if state.status == PENDING:
        return Reason(
            kind="declared",
            text=f"the flow has not started: {count(len(state.inbox), 'message')} in its inbox",
            is_stuck=False,
            next=f"start it: aos flow start {flow.id[0]} JSON",
        )
    if state.status == STUCK:
        return Reason(
            kind="declared",
            text="its rollback is stuck",
            is_stuck=True,
            next=f"aos flow show {words}",
        )
    if state.status == FAILED:
        failure_text = "" if state.failure is None else f": {short(state.failure.text, 400)}"
        return Reason(
            kind="declared",
            text=f"the flow failed{failure_text}",
            is_stuck=True,
            next=f"its operations: aos flow show {words}",
        )
    outcome = "was canceled" if state.status == CANCELED else "completed"
    return Reason(kind="declared", text=f"the flow {outcome}", is_stuck=False)
