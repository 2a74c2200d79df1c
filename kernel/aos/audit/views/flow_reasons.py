"""Explain what a flow waits for, with the path of each operation and the next command
(spec/audit.md, A-51b)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aos.audit.lens.lens import as_json
from aos.audit.lens.words import count, short, span_text, time_text
from aos.audit.views.flow_reading import CLOSED, SeenFlow
from aos.audit.views.reason import Reason, command_words
from aos.core.journal.faults import Fault, FaultKind
from aos.flow.divergence import FlowDivergence
from aos.flow.flow_state import CANCELED, ENDED, FAILED, PENDING, STUCK, FlowState
from aos.flow.waits import CHILD, MESSAGE, RESUME, Wait, waits
from aos.shell_text import shell_word

MESSAGES_SAID: Final = 8
"""How many messages and children that a flow waits for are described."""
CANCELED_CALL: Final = " (the call is canceled, and undone if that flow completes)"


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
        yield _waiting(flow, state, wait, words, now_ns)
    if len(other_waits) > MESSAGES_SAID:
        yield Reason(
            kind="message",
            text=f"and at {len(other_waits) - MESSAGES_SAID:,} operations more",
            is_stuck=False,
            next=f"aos flow show {words}",
        )


def _waiting(flow: SeenFlow, state: FlowState, wait: Wait, words: str, now_ns: int) -> Reason:
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
