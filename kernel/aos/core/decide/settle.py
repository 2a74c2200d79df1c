"""Decide the inputs of executors: the record that admits one, or the rule that it breaks.

A receipt settles an open intent (spec/kernel.md, K-51 to K-56), a stream frame reports its progress
(K-90 to K-94), an attempt records that it runs again, or does not run now (K-95 to K-99). Nothing
here changes the state, and the first broken rule is the answer.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from aos.core.decide.admit import TIME_MAX
from aos.core.decide.answers import Refusal, Rule
from aos.core.decide.decided import Decided
from aos.core.decide.refusing import refusal
from aos.core.journal.faults import clipped
from aos.core.journal.inputs import CODE_BYTES_MAX, AttemptInput, ReceiptInput, StreamInput
from aos.core.journal.ports import BlobReader, Verify
from aos.core.journal.records import Attempt, Receipt, Stamp, Stream, slot, slot_bytes
from aos.core.journal.signing import is_signed, may_sign
from aos.core.journal.vocabulary import (
    HALTS,
    PHASES,
    STATUSES,
    AttemptPhase,
    ReceiptOutcome,
    ReceiptStatus,
    word_of,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.continuation import read_payload, settled_arm, takes
from aos.core.state.state import State, StreamState
from aos.core.state.version import workflow_of
from aos.manifest.builtins import KERNEL_EFFECTS, REJECTED, STREAM, TIMER
from aos.values.digests import Hash
from aos.values.errors import quoted
from aos.values.show import describe

ATTEMPT_MAX: Final = 2**32 - 1
FRAME_SEQ_MAX: Final = 2**63 - 1
FRAME_KIND_BYTES_MAX: Final = 128
SECOND_NS: Final = 10**9


def admit_receipt(
    state: State,
    given: ReceiptInput,
    stamp: Stamp,
    read: BlobReader,
    *,
    verify: Verify = is_signed,
) -> Decided | Refusal:
    """Settle an open intent. A receipt that is itself invalid changes nothing."""
    is_abandoned = given.intent in state.abandoned
    intent = state.abandoned.get(given.intent) or state.intents.get(given.intent)
    if intent is None:
        return _unknown(given.intent)
    status = word_of(STATUSES, given.status)
    if given.effect != intent.effect.name:
        return _other_effect(given.effect, intent)
    if status is None:
        return refusal(
            Rule.RECEIPT_STATUS_IS_UNKNOWN,
            f"expected {' or '.join(STATUSES)}, found {quoted(given.status)}",
        )
    problem = _shape(state, given, intent) or _authority(state, given, intent, verify)
    if problem is None and intent.effect.name == TIMER and status == "ok":
        problem = _not_due(state, intent, stamp, read)
    if problem is not None:
        return problem
    came: ReceiptOutcome = "abandoned"
    schema, misfit = None, None
    abandoned: tuple[Hash, ...] = ()
    if not is_abandoned:
        came, schema, misfit = outcome(state, intent, status, given.payload)
        if came == "faulted":
            abandoned = tuple(
                each for each in state.cells[intent.cell].inflight if each != given.intent
            )
    blobs: dict[Hash, bytes] = {}
    record = Receipt(
        seq=state.next_seq,
        stamp=stamp,
        intent=given.intent,
        cell=intent.cell,
        effect=given.effect,
        attempt=given.attempt,
        status=status,
        payload=slot(given.payload, blobs),
        payload_schema=schema,
        started_ns=given.started_ns,
        finished_ns=given.finished_ns,
        cost_cents=given.cost_cents,
        executor=given.executor,
        key_id=given.key_id,
        signature=given.signature,
        outcome=came,
        problem=misfit,
        abandoned=abandoned,
        batch=given.batch,
    )
    return Decided(record=record, blobs=blobs)


def _unknown(intent: Hash) -> Refusal:
    return refusal(
        Rule.RECEIPT_INTENT_IS_UNKNOWN, f"no intent blake3:{intent[:32].hex()} is open here"
    )


def _shape(state: State, given: ReceiptInput, intent: OpenIntent) -> Refusal | None:
    problem = _old_attempt(state, given.attempt, intent)
    if problem is not None:
        return problem
    most = state.effective.limits.event_bytes
    if len(given.payload) > most:
        return refusal(
            Rule.RECEIPT_IS_TOO_LARGE,
            f"expected at most {most} bytes of payload, found {len(given.payload)}",
        )
    cost = 0 if given.cost_cents is None else given.cost_cents
    numbers = (given.started_ns, given.finished_ns, cost)
    if not all(_is_nat(each, TIME_MAX) for each in numbers) or given.started_ns > given.finished_ns:
        return refusal(
            Rule.RECEIPT_TIMES_ARE_INVALID,
            "expected 0 <= started_ns <= finished_ns < 2^63 and a cost from 0, found "
            f"{describe(given.started_ns)}, {describe(given.finished_ns)} and "
            f"{describe(given.cost_cents)}",
        )
    return None


def _other_effect(effect: str, intent: OpenIntent) -> Refusal:
    return refusal(
        Rule.RECEIPT_EFFECT_DIFFERS, f"expected {intent.effect.name}, found {quoted(effect)}"
    )


def _old_attempt(state: State, attempt: object, intent: OpenIntent) -> Refusal | None:
    least = max(1, state.attempt(intent))
    if _is_nat(attempt, ATTEMPT_MAX) and attempt >= least:
        return None
    return refusal(
        Rule.RECEIPT_ATTEMPT_IS_OLD,
        f"expected an attempt of {least} to {ATTEMPT_MAX}, found {describe(attempt)}",
    )


def _is_nat(value: object, most: int) -> TypeGuard[int]:
    # A bool is an int to Python; in the journal it is not.
    return type(value) is int and 0 <= value <= most


def _authority(
    state: State, given: ReceiptInput | StreamInput, intent: OpenIntent, verify: Verify
) -> Refusal | None:
    """Check that this key could sign for this effect when the intent was opened, and did."""
    if given.effect in KERNEL_EFFECTS or not may_sign(
        intent.executors,
        state.revoked,
        executor=given.executor,
        effect=given.effect,
        key_id=given.key_id,
        world_key=state.world_key,
    ):
        return refusal(
            Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN,
            f"executor {quoted(given.executor)} with key ed25519:{given.key_id[:32].hex()} may not "
            f"sign for {given.effect}: it could not when the effect was asked for, or its key is "
            "revoked",
        )
    message = given.signed_message(state.world)
    if message is None or not verify(message, given.signature, given.key_id):
        return refusal(
            Rule.RECEIPT_SIGNATURE_IS_WRONG,
            f"the signature is not {given.executor}'s over this receipt",
        )
    return None


def _not_due(state: State, intent: OpenIntent, stamp: Stamp, read: BlobReader) -> Refusal | None:
    params = intent.effect.params.from_record(slot_bytes(intent.params, read))
    assert isinstance(params, dict)
    due = params["deliver_at_ns"]
    assert isinstance(due, int)
    now = max(state.clock_ns, stamp.ns)
    if now >= due:
        return None
    return refusal(
        Rule.TIMER_IS_NOT_DUE, f"due at {due} ns, {due - now} ns after the journal's clock"
    )


def outcome(
    state: State, intent: OpenIntent, status: ReceiptStatus, payload: bytes
) -> tuple[ReceiptOutcome, str | None, str | None]:
    """The result of an open intent's receipt by K-54 and K-55: (outcome, schema of the payload,
    problem of the payload)."""
    effective = state.effective
    cell = state.cells[intent.cell]
    workflow = workflow_of(state, cell)
    assert workflow is not None, "an instance in flight has its workflow"
    schema, problem = None, None
    read = read_payload(effective, workflow, intent, status, payload)
    if isinstance(read, str):
        problem = clipped(read)
    else:
        schema = read.schema
        if settled_arm(workflow, intent, status) is None:
            problem = f"{workflow.name} has no arm for a receipt with status {status}"
    if problem is not None and not takes(workflow, REJECTED):
        return "faulted", schema, problem
    if cell.fault is None and len(cell.mailbox) >= effective.limits.mailbox:
        return "overloaded", schema, problem
    return ("delivered" if problem is None else "rejected"), schema, problem


def admit_stream(
    state: State,
    given: StreamInput,
    stamp: Stamp,
    *,
    verify: Verify = is_signed,
) -> Decided | Refusal:
    """Admit a stream frame for the origin cell. A refused frame is lost; nothing else changes."""
    intent = state.intents.get(given.intent)
    if intent is None:
        return _unknown(given.intent)
    if given.effect != intent.effect.name:
        return _other_effect(given.effect, intent)
    problem = (
        _old_attempt(state, given.attempt, intent)
        or _frame_shape(state, given)
        or _authority(state, given, intent, verify)
        or _no_taker(state, intent)
        or _too_fast(state, given, stamp)
    )
    if problem is not None:
        return problem
    blobs: dict[Hash, bytes] = {}
    record = Stream(
        seq=state.next_seq,
        stamp=stamp,
        intent=given.intent,
        cell=intent.cell,
        effect=given.effect,
        attempt=given.attempt,
        frame_seq=given.frame_seq,
        frame_kind=given.frame_kind,
        payload=slot(given.payload, blobs),
        payload_ref=given.payload_ref,
        executor=given.executor,
        key_id=given.key_id,
        signature=given.signature,
    )
    return Decided(record=record, blobs=blobs)


def _frame_shape(state: State, given: StreamInput) -> Refusal | None:
    try:
        kind_bytes = len(given.frame_kind.encode())
    except UnicodeEncodeError:
        kind_bytes = 0
    if not _is_nat(given.frame_seq, FRAME_SEQ_MAX) or not 0 < kind_bytes <= FRAME_KIND_BYTES_MAX:
        return refusal(
            Rule.STREAM_FRAME_IS_INVALID,
            f"expected a number from 0 and a kind of 1 to {FRAME_KIND_BYTES_MAX} bytes of UTF-8, "
            f"found {describe(given.frame_seq)} and {quoted(given.frame_kind)}",
        )
    if given.payload_ref is not None and len(given.payload_ref) != len(given.intent):
        return refusal(Rule.STREAM_FRAME_IS_INVALID, "payload_ref: expected a hash of 32 bytes")
    most = state.effective.limits.stream_bytes
    if len(given.payload) > most:
        return refusal(
            Rule.STREAM_FRAME_IS_TOO_LARGE,
            f"expected at most {most} bytes of payload, found {len(given.payload)}",
        )
    return None


def _no_taker(state: State, intent: OpenIntent) -> Refusal | None:
    """Refuse a frame that the origin cell cannot take: progress never fails an instance."""
    cell = state.cells[intent.cell]
    workflow = workflow_of(state, cell)
    if workflow is None or not takes(workflow, STREAM):
        problem = f"{intent.cell[0]} has no arm for {STREAM}"
    elif cell.fault is not None:
        problem = "the instance has failed"
    elif len(cell.mailbox) >= state.effective.limits.mailbox:
        problem = "its mailbox is full"
    else:
        return None
    return refusal(Rule.STREAM_HAS_NO_TAKER, problem)


def _too_fast(state: State, given: StreamInput, stamp: Stamp) -> Refusal | None:
    limits = state.effective.limits
    stream = state.streams.get(given.intent) or StreamState()
    if given.frame_seq <= stream.last:
        return refusal(
            Rule.STREAM_FRAME_IS_OLD,
            f"expected a number after {stream.last}, found {given.frame_seq}",
        )
    if stream.frames >= limits.stream_frames:
        return refusal(
            Rule.STREAM_IS_TOO_LONG, f"an intent has at most {limits.stream_frames} frames"
        )
    is_new_second = max(state.clock_ns, stamp.ns) - stream.since_ns >= SECOND_NS
    if not is_new_second and stream.recent >= limits.stream_rate:
        return refusal(
            Rule.STREAM_IS_TOO_FAST, f"expected at most {limits.stream_rate} frames in a second"
        )
    return None


def admit_attempt(state: State, given: AttemptInput, stamp: Stamp) -> Decided | Refusal:
    """Record that an intent runs again, that it is unknown how its only run ended, or that it does
    not run now."""
    intent = state.intents.get(given.intent)
    if intent is None:
        return _unknown(given.intent)
    phase = word_of(PHASES, given.phase)
    if phase is None or intent.effect.name in KERNEL_EFFECTS:
        return refusal(
            Rule.ATTEMPT_IS_INVALID,
            f"expected {' or '.join(PHASES)} of an effect that executors run, found "
            f"{quoted(given.phase)} of {intent.effect.name}",
        )
    problem = _not_in_phase(state, intent, phase) or _code_problem(phase, given.code)
    if problem is not None:
        return refusal(Rule.ATTEMPT_IS_INVALID, problem)
    least, most = _attempts_in(state, intent, phase)
    if not (_is_nat(given.attempt, ATTEMPT_MAX) and least <= given.attempt <= most):
        expected = f"an attempt of {least} to {most}" if least <= most else "no other attempt"
        return refusal(Rule.ATTEMPT_IS_OLD, f"expected {expected}, found {describe(given.attempt)}")
    record = Attempt(
        seq=state.next_seq,
        stamp=stamp,
        intent=given.intent,
        cell=intent.cell,
        attempt=given.attempt,
        phase=phase,
        problem=None if given.problem is None else clipped(given.problem),
        code=given.code,
    )
    return Decided(record=record, blobs={})


def _not_in_phase(state: State, intent: OpenIntent, phase: AttemptPhase) -> str | None:
    """Why no attempt of the intent can be in ``phase`` now (K-97, K-99)."""
    is_once, name = intent.effect.delivery == "at_most_once", intent.effect.name
    has_begun = state.attempt(intent) > 0
    if phase == "lost" and not (is_once and has_begun):
        return f"expected an attempt of an effect that may run only once, found one of {name}"
    if phase == "lost" and (halt := state.halt(intent)) is not None:
        return f"expected an attempt that may have run, found one of {name} that is {halt.phase}"
    if phase in HALTS and not has_begun:
        return f"expected an attempt of {name} that has begun, found none"
    return None


def _code_problem(phase: AttemptPhase, code: str | None) -> str | None:
    """Why ``code`` is not one of an attempt in ``phase``: only a halt has one (K-99)."""
    if phase not in HALTS:
        return None if code is None else f"expected no code of a {phase} attempt, found one"
    try:
        size = 0 if code is None else len(code.encode())
    except UnicodeEncodeError:
        size = 0
    if 0 < size <= CODE_BYTES_MAX:
        return None
    return f"expected a code of 1 to {CODE_BYTES_MAX} bytes of UTF-8, found {describe(code)}"


def _attempts_in(state: State, intent: OpenIntent, phase: AttemptPhase) -> tuple[int, int]:
    """The lowest and highest number of an attempt that can be in ``phase`` now."""
    last = state.attempt(intent)
    if phase != "begun":
        return last, last
    if intent.effect.delivery != "at_most_once":
        return last + 1, ATTEMPT_MAX
    # One attempt may run. One that was held has not run (K-97).
    halt = state.halt(intent)
    was_held = halt is not None and halt.phase == "held"
    return last + 1, last + 1 if was_held or not last else last
