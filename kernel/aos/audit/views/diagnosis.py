"""Explain why a cell does not advance, and what to do next (spec/audit.md, A-50 to A-52)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from aos.audit.lens.words import compact, count, short, span_text, time_text
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, slot_bytes
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import Debt, Owed, State
from aos.errors import Damage
from aos.manifest.builtins import TIMER
from aos.manifest.names import NODE
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem

INTENTS_SAID: Final = 8
"""How many open intents of one cell are described; the others are counted."""

ADVICE: Final[Mapping[FaultKind, str]] = {
    FaultKind.TRAP: "mend its module, or do not send it what it cannot take",
    FaultKind.FUEL: "raise limits.fuel of the workflow, or let one step do less",
    FaultKind.MEMORY: "raise limits.memory_bytes of the workflow, or let it need less",
    FaultKind.OUTPUT_TOO_LARGE: "raise limits.output_bytes of the workflow, or return less",
    FaultKind.OUTPUT_MALFORMED: "mend its module: what it returned is no output envelope",
    FaultKind.STATE_INVALID: "make the state that its module returns fit the state schema",
    FaultKind.ANNOTATION_INVALID: "make its annotations fit the annotations schema",
    FaultKind.EVENT_INVALID: "make the event that it emits fit a schema of the manifest",
    FaultKind.KEY_INVALID: "make the event that it emits carry a key that its route can read",
    FaultKind.EFFECT_UNDECLARED: "add the effect to effects_emitted of the workflow",
    FaultKind.PARAMS_INVALID: "make the params that it asks with fit the effect's schema",
    FaultKind.TOO_MANY_EVENTS: "raise limits.events of the workflow, or emit fewer in a step",
    FaultKind.TOO_MANY_EFFECTS: "raise limits.effects of the workflow, or ask for fewer in a step",
    FaultKind.IDEMPOTENCY_CONFLICT: "use a new idempotency key where the params are new",
    FaultKind.OPEN_WORK_EXCEEDED: "wait for effects to settle before asking for more",
    FaultKind.DELETED_WITH_EFFECTS: "do not ask for effects in the step that deletes the cell",
    FaultKind.CASCADE_TOO_DEEP: "look for workflows that emit events to each other for ever",
    FaultKind.CASCADE_TOO_LONG: "look for workflows that emit events to each other for ever",
    FaultKind.GUEST: "its module said so itself: read the message",
    FaultKind.RECEIPT_INVALID: "make the executor answer as the effect's receipt schema says, or "
    "give the workflow's event an arm for sys/EffectReceiptRejected@1",
    FaultKind.OVERLOADED: "send to it more slowly, or raise limits.mailbox of the world",
    FaultKind.STACK: "let its module recurse less",
    FaultKind.HOST_MEMORY: "run the world on a machine with more memory",
    FaultKind.WATCHDOG: "run the world on a machine that is less busy",
}
"""The advice for each kind of fault. After `aos apply` of a corrected manifest, `aos cells
retry` resumes the failed cell."""

INTENT_DIGITS: Final = 12
"""How many hex digits of an intent's hash a suggested command contains."""

_DEBTS: Final[Mapping[Debt, str]] = {
    Debt.ANSWER: "the core itself answers it",
    Debt.CANCEL: "an operator canceled it",
    Debt.LOSS: "its only run was lost, and it may not run again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One fact about a cell: what it waits for, or why it ended.

    ``kind`` is one of ``absent``, ``fault``, ``declared``, ``ready``, ``timer``, ``effect``,
    ``core``, ``idle``; ``is_stuck`` says that the cell does not continue without help; ``next`` is
    what to do.
    """

    kind: str
    text: str
    is_stuck: bool
    next: str | None = None

    def to_document(self) -> dict[str, object]:
        return asdict(self)


def diagnose(
    state: State, id: CellId, key: object, read: BlobReader, *, now_ns: int
) -> tuple[Reason, ...]:
    """Return every reason why a cell does not advance, or why it ended; at least one.

    Args:
        key: The cell's key as JSON, for the suggested commands.
        now_ns: The time that waiting is measured against, in ns.
    """
    cell = state.cells.get(id)
    if cell is None:
        return (_absent(state, id),)
    found = list(_reasons(state, cell, command_words(id[0], key), read, now_ns))
    return tuple(found) or (
        Reason(
            kind="idle", text="idle: nothing is owed to it, it waits for an event", is_stuck=False
        ),
    )


def command_words(workflow: str, key: object) -> str:
    """Return ``WORKFLOW KEY`` as a user types it."""
    words = [workflow] if key is None else [workflow, key if isinstance(key, str) else compact(key)]
    return shlex.join(words)


def _absent(state: State, id: CellId) -> Reason:
    routes = () if state.manifest is None else state.manifest.subscriptions
    events = sorted({route.event for route in routes if route.workflow == id[0]})
    return Reason(
        kind="absent",
        text="there is no such cell: nothing has reached it, or its module deleted it",
        is_stuck=False,
        next=f"an event reaches it by aos send {' or '.join(events)}" if events else None,
    )


def _reasons(
    state: State, cell: Cell, words: str, read: BlobReader, now_ns: int
) -> Iterator[Reason]:
    if cell.fault is not None:
        yield _fault(cell, words)
    elif cell.declared is not None:
        yield _declared(cell, words)
    if cell.fault is None and cell.mailbox:
        yield Reason(
            kind="ready",
            text=f"mail waits to be run: {count(len(cell.mailbox), 'event')}",
            is_stuck=True,
            next="drive the world: aos run",
        )
    open_ones = [state.intents[intent] for intent in cell.inflight]
    for intent in open_ones[:INTENTS_SAID]:
        yield open_intent(state, intent, read, now_ns=now_ns)
    if len(open_ones) > INTENTS_SAID:
        more = len(open_ones) - INTENTS_SAID
        yield Reason(
            kind="effect",
            text=f"and for {count(more, 'effect')} more",
            is_stuck=False,
            next="aos inspect intents lists them",
        )


def _fault(cell: Cell, words: str) -> Reason:
    fault = cell.fault
    assert fault is not None
    text = f"failed: fault {fault.kind.value} at record {cell.fault_seq}: {fault.message}"
    behind = len(cell.mailbox) - fault.by_entry
    if behind:
        text += f"; mail waits behind it and does not run: {count(behind, 'event')}"
    if cell.mail_uncounted:
        text += (
            f"; past the limit of its mailbox, in the journal alone: "
            f"{count(cell.mail_uncounted, 'event')}"
        )
    return Reason(
        kind="fault",
        text=text,
        is_stuck=True,
        next=f"{ADVICE[fault.kind]}; look at aos trace {cell.fault_seq}; then "
        + retry_words(fault, words),
    )


def retry_words(fault: Fault, words: str) -> str:
    """Return the command that resumes a failed instance; ``words`` name its cell."""
    retry = f"aos cells retry {words}"
    return f"{retry} (or, to drop what it failed on: {retry} --skip)" if fault.by_entry else retry


def _declared(cell: Cell, words: str) -> Reason:
    if cell.declared == "completed":
        return Reason(kind="declared", text="its module declared it completed", is_stuck=False)
    return Reason(
        kind="declared",
        text=f"its module declared it failed, by record {cell.last_seq}",
        is_stuck=True,
        next=f"its state says why: aos inspect cell {words}",
    )


def open_intent(state: State, intent: OpenIntent, read: BlobReader, *, now_ns: int) -> Reason:
    """Return why an open intent is not settled yet."""
    owed = next((each for each in state.owed if each.intent == intent.intent), None)
    if owed is not None:
        return _owed(intent, owed)
    if state.is_inherited(intent):
        return _inherited(intent)
    if intent.effect.name == TIMER:
        return _timer(intent, read, now_ns)
    name, since = intent.effect.name, span_text(max(0, now_ns - intent.opened_ns))
    run, may_repeat = _attempts(state, intent)
    digits = intent.intent.hex()[:INTENT_DIGITS]
    return Reason(
        kind="effect",
        text=f"waits for {name} ({short(hash_text(intent.intent), 18)}): nobody has answered "
        f"for {since}{run}",
        is_stuck=False,
        next=f"{_executor_words(intent, may_repeat)}; or give it up: aos effects cancel {digits}",
    )


def _inherited(intent: OpenIntent) -> Reason:
    return Reason(
        kind="effect",
        text=f"waits for {intent.effect.name} ({short(hash_text(intent.intent), 18)}), which the "
        "world asked for that this one was forked of: nobody carries it out here",
        is_stuck=True,
        next=f"give it up: aos effects cancel {intent.intent.hex()[:INTENT_DIGITS]}",
    )


def _owed(intent: OpenIntent, owed: Owed) -> Reason:
    return Reason(
        kind="core",
        text=f"waits for the core, which owes it a receipt for {intent.effect.name}: "
        f"{_DEBTS[owed.why]}",
        is_stuck=False,
        next="it is made as soon as anybody drives or writes the world: aos run",
    )


def _attempts(state: State, intent: OpenIntent) -> tuple[str, bool]:
    """Return what is known about an intent's runs, as text, and whether it may be run (again)."""
    last = state.attempt(intent)
    if intent.effect.delivery == "at_most_once":
        if not last:
            return "; it may run only once, and has not begun", True
        return "; it may run only once, and has begun: whether it goes on is not known", False
    most = intent.effect.attempts
    if most > 1 or last > 1:
        return f"; attempt {last} of {max(most, last)}", True
    return "", True


def _executor_words(intent: OpenIntent, may_repeat: bool) -> str:
    if not may_repeat:
        return (
            "let who runs it finish; where that process is gone, aos run settles it as "
            "unknown_outcome"
        )
    if intent.effect.executor != NODE:
        return (
            f"drive the world with executor {intent.effect.executor}, with a function for "
            f"{intent.effect.name}: aos run --executors MODULE:ATTRIBUTE"
        )
    by = "the node answers it while it runs: aos run"
    return f"{by} --allow-http HOST" if intent.effect.name.startswith("sys/http.") else by


def _timer(intent: OpenIntent, read: BlobReader, now_ns: int) -> Reason:
    try:
        params = intent.effect.params.from_record(slot_bytes(intent.params, read))
    except (ValueProblem, Damage) as problem:
        return Reason(
            kind="timer",
            text=f"waits for a timer that cannot be read: {problem}",
            is_stuck=True,
            next="aos verify",
        )
    due = params.get("deliver_at_ns") if isinstance(params, dict) else None
    assert isinstance(due, int)
    if due > now_ns:
        text = f"timer due at {time_text(due)}, in {span_text(due - now_ns)}"
        return Reason(kind="timer", text=text, is_stuck=False, next=None)
    return Reason(
        kind="timer",
        text=f"timer was due at {time_text(due)}, {span_text(now_ns - due)} ago",
        is_stuck=False,
        next="it fires while the world runs: aos run",
    )
