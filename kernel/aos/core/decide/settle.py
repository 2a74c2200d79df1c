"""Decide the inputs of executors: the record that admits one, or the rule that it breaks.

A receipt settles an open intent (spec/kernel.md, K-51 to K-56), a stream frame reports its progress
(K-90 to K-94), an attempt records that it runs again, or does not run now (K-95 to K-99). Nothing
here changes the state, and the first broken rule is the answer.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from aos.core.decide.admit import TIME_MAX
from aos.core.decide.answers import Decided, Refusal, Rule, refusal
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
from aos.core.state.cell import OpenIntent, StreamState
from aos.core.state.continuation import read_payload, settled_arm, takes
from aos.core.state.state import State
from aos.core.state.version import workflow_of
from aos.manifest.names import KERNEL_EFFECTS, REJECTED, STREAM, TIMER
from aos.values.digests import Hash
from aos.values.errors import quoted
from aos.values.show import describe

ATTEMPT_MAX: Final = 2**32 - 1
FRAME_SEQ_MAX: Final = 2**63 - 1
FRAME_KIND_BYTES_MAX: Final = 128
SECOND_NS: Final = 10**9


def admit_receipt(
    state: State,
    receipt: ReceiptInput,
    stamp: Stamp,
    read: BlobReader,
    *,
    verify: Verify = is_signed,
) -> Decided | Refusal:
    """Settle an open intent. A receipt that is itself invalid changes nothing."""
    is_abandoned = receipt.intent in state.abandoned
    intent = state.abandoned.get(receipt.intent) or state.intents.get(receipt.intent)
    if intent is None:
        return _unknown(receipt.intent)
    status = word_of(STATUSES, receipt.status)
    if receipt.effect != intent.effect.name:
        return _other_effect(receipt.effect, intent)
    if status is None:
        return refusal(
            Rule.RECEIPT_STATUS_IS_UNKNOWN,
            f"expected {' or '.join(STATUSES)}, found {quoted(receipt.status)}",
        )
    problem = _shape(state, receipt, intent) or _authority(state, receipt, intent, verify)
    if problem is None and intent.effect.name == TIMER and status == "ok":
        problem = _not_due(state, intent, stamp, read)
    if problem is not None:
        return problem
    receipt_outcome: ReceiptOutcome = "abandoned"
    schema, misfit = None, None
    abandoned: tuple[Hash, ...] = ()
    if not is_abandoned:
        receipt_outcome, schema, misfit = outcome(state, intent, status, receipt.payload)
        if receipt_outcome == "faulted":
            abandoned = tuple(
                intent_hash
                for intent_hash in state.cells[intent.cell].inflight
                if intent_hash != receipt.intent
            )
    blobs: dict[Hash, bytes] = {}
    record = Receipt(
        seq=state.next_seq,
        stamp=stamp,
        intent=receipt.intent,
        cell=intent.cell,
        effect=receipt.effect,
        attempt=receipt.attempt,
        status=status,
        payload=slot(receipt.payload, blobs),
        payload_schema=schema,
        started_ns=receipt.started_ns,
        finished_ns=receipt.finished_ns,
        cost_cents=receipt.cost_cents,
        executor=receipt.executor,
        key_id=receipt.key_id,
        signature=receipt.signature,
        outcome=receipt_outcome,
        problem=misfit,
        abandoned=abandoned,
        batch=receipt.batch,
    )
    return Decided(record=record, blobs=blobs)


def _unknown(intent: Hash) -> Refusal:
    return refusal(
        Rule.RECEIPT_INTENT_IS_UNKNOWN, f"no intent blake3:{intent[:32].hex()} is open here"
    )


def _shape(state: State, receipt: ReceiptInput, intent: OpenIntent) -> Refusal | None:
    problem = _old_attempt(state, receipt.attempt, intent)
    if problem is not None:
        return problem
    max_bytes = state.effective.limits.event_bytes
    if len(receipt.payload) > max_bytes:
        return refusal(
            Rule.RECEIPT_IS_TOO_LARGE,
            f"expected at most {max_bytes} bytes of payload, found {len(receipt.payload)}",
        )
    cost = 0 if receipt.cost_cents is None else receipt.cost_cents
    numbers = (receipt.started_ns, receipt.finished_ns, cost)
    if (
        not all(_is_nat(number, TIME_MAX) for number in numbers)
        or receipt.started_ns > receipt.finished_ns
    ):
        return refusal(
            Rule.RECEIPT_TIMES_ARE_INVALID,
            "expected 0 <= started_ns <= finished_ns < 2^63 and a cost from 0, found "
            f"{describe(receipt.started_ns)}, {describe(receipt.finished_ns)} and "
            f"{describe(receipt.cost_cents)}",
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


def _is_nat(value: object, limit: int) -> TypeGuard[int]:
    # A bool is an int to Python; in the journal it is not.
    return type(value) is int and 0 <= value <= limit


def _authority(
    state: State, statement: ReceiptInput | StreamInput, intent: OpenIntent, verify: Verify
) -> Refusal | None:
    """Check that this key could sign for this effect when the intent was opened, and did."""
    if statement.effect in KERNEL_EFFECTS or not may_sign(
        intent.executors,
        state.revoked,
        executor=statement.executor,
        effect=statement.effect,
        key_id=statement.key_id,
        world_key=state.world_key,
    ):
        return refusal(
            Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN,
            f"executor {quoted(statement.executor)} with key "
            f"ed25519:{statement.key_id[:32].hex()} may not "
            f"sign for {statement.effect}: it could not when the effect was asked for, or its "
            "key is revoked",
        )
    message = statement.signed_message(state.world)
    if message is None or not verify(message, statement.signature, statement.key_id):
        return refusal(
            Rule.RECEIPT_SIGNATURE_IS_WRONG,
            f"the signature is not {statement.executor}'s over this receipt",
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
    frame: StreamInput,
    stamp: Stamp,
    *,
    verify: Verify = is_signed,
) -> Decided | Refusal:
    """Admit a stream frame for the origin cell. A refused frame is lost; nothing else changes."""
    intent = state.intents.get(frame.intent)
    if intent is None:
        return _unknown(frame.intent)
    if frame.effect != intent.effect.name:
        return _other_effect(frame.effect, intent)
    problem = (
        _old_attempt(state, frame.attempt, intent)
        or _frame_shape(state, frame)
        or _authority(state, frame, intent, verify)
        or _no_taker(state, intent)
        or _too_fast(state, frame, stamp)
    )
    if problem is not None:
        return problem
    blobs: dict[Hash, bytes] = {}
    record = Stream(
        seq=state.next_seq,
        stamp=stamp,
        intent=frame.intent,
        cell=intent.cell,
        effect=frame.effect,
        attempt=frame.attempt,
        frame_seq=frame.frame_seq,
        frame_kind=frame.frame_kind,
        payload=slot(frame.payload, blobs),
        payload_ref=frame.payload_ref,
        executor=frame.executor,
        key_id=frame.key_id,
        signature=frame.signature,
    )
    return Decided(record=record, blobs=blobs)


def _frame_shape(state: State, frame: StreamInput) -> Refusal | None:
    try:
        kind_bytes = len(frame.frame_kind.encode())
    except UnicodeEncodeError:
        kind_bytes = 0
    if not _is_nat(frame.frame_seq, FRAME_SEQ_MAX) or not 0 < kind_bytes <= FRAME_KIND_BYTES_MAX:
        return refusal(
            Rule.STREAM_FRAME_IS_INVALID,
            f"expected a number from 0 and a kind of 1 to {FRAME_KIND_BYTES_MAX} bytes of UTF-8, "
            f"found {describe(frame.frame_seq)} and {quoted(frame.frame_kind)}",
        )
    if frame.payload_ref is not None and len(frame.payload_ref) != len(frame.intent):
        return refusal(Rule.STREAM_FRAME_IS_INVALID, "payload_ref: expected a hash of 32 bytes")
    max_bytes = state.effective.limits.stream_bytes
    if len(frame.payload) > max_bytes:
        return refusal(
            Rule.STREAM_FRAME_IS_TOO_LARGE,
            f"expected at most {max_bytes} bytes of payload, found {len(frame.payload)}",
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


def _too_fast(state: State, frame: StreamInput, stamp: Stamp) -> Refusal | None:
    limits = state.effective.limits
    stream = state.streams.get(frame.intent) or StreamState()
    if frame.frame_seq <= stream.last:
        return refusal(
            Rule.STREAM_FRAME_IS_OLD,
            f"expected a number after {stream.last}, found {frame.frame_seq}",
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


def admit_attempt(state: State, attempt: AttemptInput, stamp: Stamp) -> Decided | Refusal:
    """Record that an intent runs again, that it is unknown how its only run ended, or that it does
    not run now."""
    intent = state.intents.get(attempt.intent)
    if intent is None:
        return _unknown(attempt.intent)
    phase = word_of(PHASES, attempt.phase)
    if phase is None or intent.effect.name in KERNEL_EFFECTS:
        return refusal(
            Rule.ATTEMPT_IS_INVALID,
            f"expected {' or '.join(PHASES)} of an effect that executors run, found "
            f"{quoted(attempt.phase)} of {intent.effect.name}",
        )
    problem = _not_in_phase(state, intent, phase) or _code_problem(phase, attempt.code)
    if problem is not None:
        return refusal(Rule.ATTEMPT_IS_INVALID, problem)
    least, highest = _attempts_in(state, intent, phase)
    if not (_is_nat(attempt.attempt, ATTEMPT_MAX) and least <= attempt.attempt <= highest):
        expected = f"an attempt of {least} to {highest}" if least <= highest else "no other attempt"
        return refusal(
            Rule.ATTEMPT_IS_OLD, f"expected {expected}, found {describe(attempt.attempt)}"
        )
    record = Attempt(
        seq=state.next_seq,
        stamp=stamp,
        intent=attempt.intent,
        cell=intent.cell,
        attempt=attempt.attempt,
        phase=phase,
        problem=None if attempt.problem is None else clipped(attempt.problem),
        code=attempt.code,
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
