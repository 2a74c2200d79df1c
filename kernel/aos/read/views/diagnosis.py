"""Explain why a cell does not advance, and what to do next (spec/audit.md, A-50 to A-52)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Control, KernelReceipt, Step, slot_bytes
from aos.core.state.cell import Cell, Halt, OpenIntent
from aos.core.state.state import Debt, Owed, State
from aos.core.state.version import workflow_of
from aos.errors import BadUsage, Damage, Pruned
from aos.manifest.names import NODE, TIMER, TIMER_CANCEL, WORLD_SEND
from aos.read.lens.record_finding import Records, ending_text
from aos.read.lens.words import FAR_NS, count, short, span_text, time_text
from aos.read.views.reason import Reason, at_path, command_words
from aos.read.views.view import Running
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem

INTENTS_SAID: Final = 8
"""How many open intents of one cell are described; the others are counted."""

ADVICE: Final[Mapping[FaultKind, str]] = {
    FaultKind.TRAP: "fix its module, or do not send this input",
    FaultKind.FUEL: "raise limits.fuel of the workflow, or do less in one step",
    FaultKind.MEMORY: "raise limits.memory_bytes of the workflow, or use less memory",
    FaultKind.OUTPUT_TOO_LARGE: "raise limits.output_bytes of the workflow, or return less",
    FaultKind.OUTPUT_MALFORMED: "fix its module: it did not return a valid output envelope",
    FaultKind.STATE_INVALID: "fix its module: the state that it returns does not fit its schema",
    FaultKind.ANNOTATION_INVALID: "fix its module: its annotations do not fit their schema",
    FaultKind.EVENT_INVALID: "fix its module: an event that it emits fits no schema",
    FaultKind.KEY_INVALID: "fix its module: an event that it emits has no key for its route",
    FaultKind.EFFECT_UNDECLARED: "add the effect to effects_emitted of the workflow",
    FaultKind.PARAMS_INVALID: "fix its module: the parameters of an effect do not fit its schema",
    FaultKind.TOO_MANY_EVENTS: "raise limits.events of the workflow, or emit fewer in a step",
    FaultKind.TOO_MANY_EFFECTS: "raise limits.effects of the workflow, or request fewer in a step",
    FaultKind.IDEMPOTENCY_CONFLICT: "use a new idempotency key when the parameters change",
    FaultKind.OPEN_WORK_EXCEEDED: "wait for effects to settle before requesting more",
    FaultKind.DELETED_WITH_EFFECTS: "do not request effects in the step that deletes the cell",
    FaultKind.CASCADE_TOO_DEEP: "look for workflows that send events to each other in a loop",
    FaultKind.CASCADE_TOO_LONG: "look for workflows that send events to each other in a loop",
    FaultKind.GUEST: "the workflow's own code reported it: read the message",
    FaultKind.RECEIPT_INVALID: "make the executor return a value of the effect's receipt schema, "
    "or add a case for sys/EffectReceiptRejected@1 to the workflow's event",
    FaultKind.OVERLOADED: "send events more slowly, or raise limits.mailbox of the world",
    FaultKind.STACK: "use less recursion in its module",
    FaultKind.HOST_MEMORY: "run the world on a machine with more memory",
    FaultKind.WATCHDOG: "run the world on a machine that is less busy",
}
"""The advice for each kind of fault. After `aos apply` of a corrected manifest, `aos cells
retry` resumes the failed cell."""

INTENT_DIGITS: Final = 12
"""How many hex digits of an intent's hash a suggested command contains."""

_DEBTS: Final[Mapping[Debt, str]] = {
    Debt.ANSWER: "the kernel itself answers it",
    Debt.CANCEL: "an operator canceled it",
    Debt.LOSS: "its only run was lost, and it may not run again",
    Debt.SETTLE: "an operator settled it",
}


_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def diagnose(
    state: State,
    id: CellId,
    key: object,
    read: BlobReader,
    *,
    now_ns: int,
    running: Running | None = None,
    ended_by: Control | None = None,
    records: Records | None = None,
) -> tuple[Reason, ...]:
    """Return every reason why a cell does not advance, or why it ended; at least one.

    Args:
        key: The cell's key as JSON, for the suggested commands.
        now_ns: The time that waiting is measured against, in ns.
        ended_by: The command that gave the cell its status; None if its module did.
        running: The process that runs the world, if there is one: no advice is to start it.
        records: The journal, in which the last input of an idle cell is looked up.
    """
    cell = state.cells.get(id)
    if cell is None:
        return (_absent(state, id),)
    words = command_words(id[0], key)

    def why_open(intent: OpenIntent) -> Reason:
        return open_intent(state, intent, read, now_ns=now_ns, running=running)

    declared, waits = _flow_reasons(state, cell, words, read, now_ns)
    if ended_by is not None:
        declared = None
    reasons = [
        *_reasons(state, cell, words, running, why_open, ended_by=ended_by, declared=declared),
        *waits,
    ]
    return tuple(reasons) or (_idle(cell, words, records),)


def _flow_reasons(
    state: State, cell: Cell, words: str, read: BlobReader, now_ns: int
) -> tuple[Reason | None, tuple[Reason, ...]]:
    """Return why a flow has its declared status, and what it waits for (A-51b); nothing for
    another workflow."""
    if cell.fault is not None or not is_flow(state, cell):
        return None, ()
    # Few cells are flows, and a small command need not import what reads them.
    from aos.read.views.flow_reading import (  # noqa: PLC0415
        declared_reason,
        flow_reasons,
        read_flow,
    )

    flow = read_flow(state, cell, read)
    if flow is None:
        return None, ()
    return declared_reason(flow, words), tuple(flow_reasons(flow, words, now_ns=now_ns))


def _idle(cell: Cell, words: str, records: Records | None) -> Reason:
    """An idle cell waits for an event. If its last input is the cancellation of a timer, it may
    have waited for that timer alone."""
    canceled = None if records is None else _canceled_timer(cell, records)
    if canceled is None:
        text = "idle: it has no open work, and waits for an event"
        return Reason(kind="idle", text=text, is_stuck=False)
    return Reason(
        kind="idle",
        text=f"idle: its only timer was canceled (record {canceled}), so it continues only if an "
        "event reaches it",
        is_stuck=True,
        next=f"send it an event; its state: aos inspect cell {words}",
    )


def _canceled_timer(cell: Cell, records: Records) -> int | None:
    """The record that canceled a timer and that the cell's last step handled: the timer's receipt,
    or the receipt of the module's own ``sys/timer.cancel@1``. None if there is none, or if these
    records were pruned."""
    try:
        step = records.at(cell.last_seq)
        record = records.at(step.entry[0]) if isinstance(step, Step) else None
    except (BadUsage, Damage, Pruned):
        return None
    if not isinstance(record, KernelReceipt):
        return None
    is_canceled = (record.effect, record.status) in {(TIMER, "canceled"), (TIMER_CANCEL, "ok")}
    return record.seq if is_canceled else None


def _absent(state: State, id: CellId) -> Reason:
    routes = () if state.manifest is None else state.manifest.subscriptions
    events = sorted({route.event for route in routes if route.workflow == id[0]})
    return Reason(
        kind="absent",
        text="there is no such cell: no event has reached it, or it was deleted",
        is_stuck=False,
        next=f"send it an event: aos send {' or '.join(events)}" if events else None,
    )


def _reasons(
    state: State,
    cell: Cell,
    words: str,
    running: Running | None,
    why_open: Callable[[OpenIntent], Reason],
    *,
    ended_by: Control | None,
    declared: Reason | None,
) -> Iterator[Reason]:
    if cell.fault is not None:
        yield _fault(state, cell, words)
    elif cell.declared is not None:
        yield declared or _declared(cell, words, ended_by)
    if cell.fault is None and cell.mailbox:
        yield Reason(
            kind="ready",
            text=f"events wait to be handled: {count(len(cell.mailbox), 'event')}",
            is_stuck=running is None,
            next="run the world: aos run" if running is None else None,
        )
    open_ones = state.intents.of(cell)
    for intent in open_ones[:INTENTS_SAID]:
        yield why_open(intent)
    if len(open_ones) > INTENTS_SAID:
        remaining = len(open_ones) - INTENTS_SAID
        yield Reason(
            kind="effect",
            text=f"and for {count(remaining, 'effect')} more",
            is_stuck=False,
            next="aos inspect intents lists them",
        )


def _fault(state: State, cell: Cell, words: str) -> Reason:
    fault = cell.fault
    assert fault is not None
    text = f"failed: fault {fault.kind.value} at record {cell.fault_seq}: {fault.message}"
    behind = len(cell.mailbox) - fault.by_entry
    if behind:
        text += f"; blocked in its mailbox until it is resumed: {count(behind, 'event')}"
    if cell.mail_uncounted:
        text += (
            f"; not delivered because its mailbox is full, only journaled: "
            f"{count(cell.mail_uncounted, 'event')}"
        )
    retry, skip = resume_commands(fault, words, is_flow=is_flow(state, cell))
    return Reason(
        kind="fault",
        text=text,
        is_stuck=True,
        next=f"{advice_on(fault)}; look at aos trace {cell.fault_seq}; then {retry}"
        + ("" if skip is None else f" (or, to skip the entry that failed: {skip})"),
    )


def advice_on(fault: Fault) -> str:
    """Return what to do about a fault before the failed cell is resumed."""
    if fault.detail is None:
        return ADVICE[fault.kind]
    from aos.read.views.flow_reading import diverged_advice  # noqa: PLC0415  # as above

    return diverged_advice(fault) or ADVICE[fault.kind]


def is_flow(state: State, cell: Cell) -> bool:
    workflow = workflow_of(state, cell)
    return workflow is not None and workflow.is_flow


def resume_commands(fault: Fault, words: str, *, is_flow: bool) -> tuple[str, str | None]:
    """Return the command that resumes a failed instance, and the one that drops what it failed on
    if it failed on something; ``words`` name its cell."""
    retry = f"aos flow resume {words}" if is_flow else f"aos cells retry {words}"
    return retry, f"{retry} --skip" if fault.by_entry else None


def _declared(cell: Cell, words: str, ended_by: Control | None) -> Reason:
    if ended_by is not None:
        return Reason(kind="declared", text=ending_text(ended_by), is_stuck=False)
    if cell.declared == "completed":
        return Reason(kind="declared", text="its workflow declared it completed", is_stuck=False)
    return Reason(
        kind="declared",
        text=f"its workflow declared it failed, by record {cell.last_seq}",
        is_stuck=True,
        next=f"its state says why: aos inspect cell {words}",
    )


def open_intent(
    state: State,
    intent: OpenIntent,
    read: BlobReader,
    *,
    now_ns: int,
    running: Running | None = None,
) -> Reason:
    """Return why an open intent is not settled yet."""
    owed = next((debt for debt in state.owed if debt.intent == intent.intent), None)
    if owed is not None:
        return _owed(intent, owed, running)
    if state.is_inherited(intent):
        return _inherited(intent)
    halt = state.halt(intent)
    if halt is not None:
        return _halted(intent, halt, now_ns, running)
    if intent.effect.name == TIMER:
        return _timer(intent, read, now_ns, running)
    name, since = intent.effect.name, span_text(max(0, now_ns - intent.opened_ns))
    at = at_path(intent.issuer_ref)
    run, may_repeat = _attempts(state, intent)
    digits = intent.intent.hex()[:INTENT_DIGITS]
    advice = _executor_words(intent, may_repeat)
    if running is not None and (may_repeat or intent.intent in running.tasks):
        progress, advice = _at_work(intent, running, now_ns)
        run = progress or run
    cancel = f"cancel it: aos effects cancel {digits}"
    return Reason(
        kind="effect",
        text=f"waits{at} for {name} ({short(hash_text(intent.intent), 18)}): no answer for "
        f"{since}{run}",
        is_stuck=False,
        next=f"{advice}; or {cancel}" if advice else f"to {cancel}",
    )


def _at_work(intent: OpenIntent, running: Running, now_ns: int) -> tuple[str, str]:
    """Return what the process that runs the world does with an intent, and what to do."""
    effect = intent.effect
    if effect.name == WORLD_SEND and effect.name not in running.effects:
        return "; the process that runs the world has no neighbours", (
            "restart that process with --neighbours"
        )
    if effect.name not in running.effects:
        return "; the process that runs the world has no executor for it", (
            f"restart that process with an executor named {effect.executor}: "
            "aos run --executors MODULE:ATTRIBUTE"
        )
    task = running.tasks.get(intent.intent)
    if task is None:
        return "; the process that runs the world has it queued", ""
    name = _ordinal(task.attempt)
    if task.phase == "backoff" and task.problem is not None:
        pause_text = span_text(max(0, task.since_ns - now_ns))
        return f"; {task.problem}; it is tried again in {pause_text}", ""
    if task.phase == "backoff" and task.since_ns > now_ns:
        return f"; its {name} attempt begins in {span_text(task.since_ns - now_ns)}", ""
    since = span_text(max(0, now_ns - task.since_ns))
    limit = "" if task.limit_ns is None else f", limit {span_text(task.limit_ns)}"
    return f"; in its {name} attempt, since {since}{limit}", ""


def _ordinal(number: int) -> str:
    return _ORDINALS[number - 1] if 1 <= number <= len(_ORDINALS) else f"{number}th"


def _halted(intent: OpenIntent, halt: Halt, now_ns: int, running: Running | None) -> Reason:
    """Return why an open intent is held or parked, and the remedy (K-99)."""
    digits = intent.intent.hex()[:INTENT_DIGITS]
    retry, cancel = f"aos effects retry {digits}", f"cancel it: aos effects cancel {digits}"
    start = "run the world" if running is None else "restart the process that runs the world"
    if halt.phase == "held":
        then = f"{start} with what is missing; if it is there already: {retry}; or {cancel}"
    elif intent.effect.delivery == "at_most_once":
        then = (
            "it has run and may run only once: find out what it did, then settle it: "
            f"aos effects settle {digits} --ok JSON | --error CODE MESSAGE; or {cancel}"
        )
    else:
        then = f"correct its executor, then {start}, or {retry}; or {cancel}"
    since = span_text(max(0, now_ns - halt.since_ns))
    reason = halt.code if halt.problem is None else f"{halt.code}: {halt.problem}"
    return Reason(
        kind=halt.phase,
        text=f"waits{at_path(intent.issuer_ref)} for {intent.effect.name} "
        f"({short(hash_text(intent.intent), 18)}), which is "
        f"{halt.phase} since {since} after attempt {halt.attempt}: {reason}",
        is_stuck=True,
        next=then,
    )


def _inherited(intent: OpenIntent) -> Reason:
    return Reason(
        kind="effect",
        text=f"waits{at_path(intent.issuer_ref)} for {intent.effect.name} "
        f"({short(hash_text(intent.intent), 18)}), which was "
        "requested before this world was forked: no executor carries it out here",
        is_stuck=True,
        next=f"cancel it: aos effects cancel {intent.intent.hex()[:INTENT_DIGITS]}",
    )


def _owed(intent: OpenIntent, owed: Owed, running: Running | None) -> Reason:
    return Reason(
        kind="core",
        text=f"waits for the kernel, which owes it a receipt for {intent.effect.name}: "
        f"{_DEBTS[owed.debt]}",
        is_stuck=False,
        next=None
        if running
        else "the kernel makes it when the world runs next, or is written to: aos run",
    )


def _attempts(state: State, intent: OpenIntent) -> tuple[str, bool]:
    """Return what is known about an intent's runs, as text, and whether it may be run (again)."""
    last = state.attempt(intent)
    if intent.effect.delivery == "at_most_once":
        if not last:
            return "; it may run only once, and has not begun", True
        return "; it may run only once, and has begun: it is unknown whether it still runs", False
    attempts_max = intent.effect.attempts
    if attempts_max > 1 or last > 1:
        return f"; attempt {last} of {max(attempts_max, last)}", True
    return "", True


def _executor_words(intent: OpenIntent, may_repeat: bool) -> str:
    if not may_repeat:
        return (
            "wait for the process that runs it; if that process is gone, aos run settles it "
            "as unknown_outcome"
        )
    if intent.effect.executor != NODE:
        return (
            f"run the world with an executor named {intent.effect.executor} that has a function "
            f"for {intent.effect.name}: aos run --executors MODULE:ATTRIBUTE"
        )
    by = "the node answers it while it runs: aos run"
    # Most commands need no package of workers.
    from aos.worker.shipped import option_for, shipped_executors  # noqa: PLC0415

    if shipped_executors(intent.effect.name) is not None or intent.effect.name == WORLD_SEND:
        return f"{by} {option_for(intent.effect.name)}"
    return f"{by} --allow-http HOST" if intent.effect.name.startswith("sys/http.") else by


def _timer(intent: OpenIntent, read: BlobReader, now_ns: int, running: Running | None) -> Reason:
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
    at = at_path(intent.issuer_ref)
    if due > now_ns:
        in_ = span_text(due - now_ns)
        if due - now_ns >= FAR_NS:
            text = f"waits until {time_text(due)} for a timer{at}, in {in_}"
        else:
            text = f"timer{at} due at {time_text(due)}, in {in_}"
        return Reason(kind="timer", text=text, is_stuck=False, next=None)
    return Reason(
        kind="timer",
        text=f"timer{at} was due at {time_text(due)}, {span_text(now_ns - due)} ago",
        is_stuck=False,
        next=None if running else "it fires while the world runs: aos run",
    )
