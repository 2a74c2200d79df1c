"""Check the records about intents: receipts, stream frames, attempts, cancels (spec/audit.md, A-24
to A-26).

The checks cover who may sign a receipt or a stream frame, which intents the core may settle without
a signature, and which attempt may begin. The fold checks whether an intent is open at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, assert_never

from aos.core.journal.identity import intent_hash
from aos.core.journal.inputs import CODE_BYTES_MAX, HELD, LOST
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Intent,
    KernelReceipt,
    Receipt,
    Slot,
    Step,
    Stream,
    slot_hash,
)
from aos.core.journal.signing import Executors, may_sign
from aos.core.journal.statements import signed_receipt_message, stream_message
from aos.core.journal.vocabulary import HALTS, AttemptPhase
from aos.core.state.continuation import payload_schemas
from aos.core.state.state import Debt, Owed, State
from aos.errors import sentence
from aos.manifest.effective import Effect, Workflow
from aos.manifest.keys import key_text
from aos.manifest.names import EFFECT_CANCEL, KERNEL_EFFECTS, TIMER, TIMER_CANCEL
from aos.prove.verify.checking import Checking, RecordedValues
from aos.prove.verify.findings import FindingKind
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem

CANCELS: Final = (TIMER_CANCEL, EFFECT_CANCEL)
BY_CANCEL: Final = "canceled"
BY_LOSS: Final = "error"
"""The status that the core gives a canceled intent, and the one for an intent whose only run was
lost."""


@dataclass(frozen=True, slots=True)
class _End:
    """The status of the receipt that ends an intent and, if an operator settled it, the content
    hash of the payload."""

    status: str
    payload: Hash | None = None


@dataclass(slots=True)
class _TrackedIntent:
    """The facts that later records about an intent are checked against. ``attempt`` is the
    current one, 0 if the first must still be journaled; ``halt`` is the phase in which it does not
    run, None if it may run. ``definition`` and ``executors`` are those of the manifest in force
    when the intent was opened; ``definition`` is None if it did not have the effect. ``ends`` maps
    each record that allows the kernel to settle the intent to the receipt that it must make."""

    cell: CellId
    effect: str
    definition: Effect | None
    params: Slot
    executors: Executors
    attempt: int
    halt: AttemptPhase | None = None
    ends: dict[int, _End] = field(default_factory=dict)

    @property
    def is_once(self) -> bool:
        return self.definition is not None and self.definition.delivery == "at_most_once"


@dataclass(slots=True)
class OpenWork:
    """The intents that earlier records have opened and none has settled."""

    checking: Checking
    values: RecordedValues
    _tracked: dict[Hash, _TrackedIntent] = field(default_factory=dict)

    def go_on(self, state: State) -> None:
        """Copy the open intents of ``state``, which is at the end of a frame."""
        for intent in (*state.intents.values(), *state.abandoned.values()):
            halt = state.halt(intent)
            self._tracked[intent.intent] = _TrackedIntent(
                cell=intent.cell,
                effect=intent.effect.name,
                definition=intent.effect,
                params=intent.params,
                executors=intent.executors,
                attempt=state.attempt(intent),
                halt=None if halt is None else halt.phase,
            )
        for owed in state.owed:
            tracked = self._tracked.get(owed.intent)
            if tracked is not None and owed.debt is not Debt.ANSWER:
                tracked.ends[owed.root.seq] = _end_of(owed)

    def open(self, record: Step, index: int, intent: Intent, workflow: Workflow | None) -> None:
        checking, path = self.checking, f"intents[{index}]"
        effective = checking.effective
        effect = effective.effects.get(intent.effect) if effective else None
        tracked = self._tracked[intent.intent] = _TrackedIntent(
            cell=record.cell,
            effect=intent.effect,
            definition=effect,
            params=intent.params,
            executors=checking.executors,
            attempt=1,
        )
        if tracked.is_once:
            tracked.attempt = 0
        self.values.normal(effect.params if effect else None, intent.params, f"{path}.params")
        if workflow is None:
            return
        if effect is None or intent.effect not in workflow.effects_emitted:
            checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{path}: {intent.effect} is not in effects_emitted of {workflow.name}",
            )
            return
        expected = intent_hash(
            world=checking.world,
            cell=record.cell,
            workflow_hash=workflow.hash,
            seq=record.seq,
            index=index,
            effect=intent.effect,
            effect_hash=effect.hash,
            params_hash=slot_hash(intent.params),
            key=intent.key,
        )
        if (intent.intent, intent.effect_hash) != (expected, effect.hash):
            checking.add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    f"{path}: its hash is not over what it asks for",
                    expected=hash_text(expected),
                    actual=hash_text(intent.intent),
                ),
            )

    # Records of executors.

    def receipt(self, record: Receipt) -> None:
        tracked = self._tracked.pop(record.intent, None)
        self._check_identity(record, tracked)
        self._signer(record, tracked)
        self._attempt_counts(record, tracked)
        message = signed_receipt_message(
            self.checking.world,
            record,
            payload=slot_hash(record.payload),
            executor=record.executor,
            key_id=record.key_id,
            batch=record.batch,
        )
        if message is None:
            self.checking.counts.signatures += 1
            self.checking.add(
                FindingKind.SIGNATURE_WRONG,
                "the path of its batch leads to no root that could be signed",
            )
        else:
            signer = f"{record.executor}'s"
            self.checking.signature(message, record.signature, record.key_id, signer)
        self._payload(record, tracked)
        if tracked is not None and record.effect == TIMER and record.status == "ok":
            self._due(tracked)

    def stream(self, record: Stream) -> None:
        tracked = self._tracked.get(record.intent)
        self._check_identity(record, tracked)
        self._signer(record, tracked)
        self._attempt_counts(record, tracked)
        message = stream_message(
            self.checking.world,
            record,
            payload=slot_hash(record.payload),
            payload_ref=record.payload_ref,
            executor=record.executor,
            key_id=record.key_id,
        )
        self.checking.signature(message, record.signature, record.key_id, f"{record.executor}'s")
        self.values.bytes_of(record.payload)

    def _check_identity(
        self, record: Receipt | KernelReceipt | Stream, tracked: _TrackedIntent | None
    ) -> None:
        """Check that a receipt or frame names the intent's own cell and effect."""
        if tracked is not None and (tracked.cell, tracked.effect) != (record.cell, record.effect):
            verb = "is about" if isinstance(record, Stream) else "settles"
            self.checking.add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    f"it {verb} another intent than it says",
                    expected=f"{tracked.effect} of {tracked.cell[0]}",
                    actual=f"{record.effect} of {record.cell[0]}",
                ),
            )

    def _signer(self, record: Receipt | Stream, tracked: _TrackedIntent | None) -> None:
        """Check that this key could sign for the effect when the intent was opened, and is not
        revoked."""
        checking = self.checking
        if checking.effective is None or checking.genesis is None or tracked is None:
            return
        if record.effect in KERNEL_EFFECTS:
            checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{record.effect} is answered by the core itself: expected no signature, "
                f"found one of {record.executor}",
            )
        elif not may_sign(
            tracked.executors,
            checking.revoked,
            executor=record.executor,
            effect=record.effect,
            key_id=record.key_id,
            world_key=checking.genesis.world_key,
        ):
            checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"executor {record.executor} with key {key_text(record.key_id)} may not sign for "
                f"{record.effect}: it could not when the effect was asked for, or is revoked",
            )

    def _attempt_counts(self, record: Receipt | Stream, tracked: _TrackedIntent | None) -> None:
        least = 1 if tracked is None else max(1, tracked.attempt)
        if record.attempt < least:
            self.checking.add(
                FindingKind.ATTEMPT_WRONG,
                sentence(
                    "it is of an attempt that counts no more",
                    expected=f"attempt {least} or a later one",
                    actual=f"attempt {record.attempt}",
                ),
            )

    def _payload(self, record: Receipt | KernelReceipt, tracked: _TrackedIntent | None) -> None:
        """Check the payload by the schema that the record names: the effect's receipt schema, as
        it was when the effect was requested, or the one of errors (K-54)."""
        effect, schema = None if tracked is None else tracked.definition, None
        if record.outcome == "delivered" and effect is not None:
            schemas = payload_schemas(effect, record.status)
            schema = next(
                (candidate for candidate in schemas if candidate.name == record.payload_schema),
                None,
            )
            if schema is None:
                self.checking.add(
                    FindingKind.VALUE_INVALID,
                    sentence(
                        "payload: delivered by another schema than its effect has",
                        expected=" or ".join(candidate.name for candidate in schemas),
                        actual=f"{record.payload_schema}",
                    ),
                )
        self.values.as_it_came(schema, record.payload, "payload")

    def _due(self, tracked: _TrackedIntent) -> None:
        effect = tracked.definition
        data = None if effect is None else self.values.checked_bytes(tracked.params)
        if effect is None or data is None:
            return
        try:
            params = effect.params.from_record(data)
        except ValueProblem:
            return  # reported where the intent was opened
        due = params.get("deliver_at_ns") if isinstance(params, dict) else None
        if isinstance(due, int) and due > self.checking.clock_ns:
            self.checking.add(
                FindingKind.TIMER_EARLY,
                sentence(
                    "a timer fired before its time by the journal's clock",
                    expected=f"{due} ns",
                    actual=f"{self.checking.clock_ns} ns",
                ),
            )

    # Intents that the core settles itself.

    def kernel_receipt(self, record: KernelReceipt) -> None:
        tracked = self._tracked.pop(record.intent, None)
        self._check_identity(record, tracked)
        problem = None if tracked is None else self._unfounded(record, tracked)
        if problem is not None:
            self.checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"no executor signed it, and the core may not make it: {problem}",
            )
        self._payload(record, tracked)

    def _unfounded(self, record: KernelReceipt, tracked: _TrackedIntent) -> str | None:
        """Return why no earlier record allows the core to settle this intent so; None if one
        does."""
        is_own = tracked.effect in KERNEL_EFFECTS
        if record.by is not None:
            by = self._tracked.get(record.by)
            if by is None or by.effect not in CANCELS or by.cell != tracked.cell:
                return f"intent {hash_text(record.by)} is no open cancel effect of its cell"
            return None if not is_own and record.status == BY_CANCEL else _wrong_status(record)
        if is_own:
            return None if record.status in ("ok", "error") else _wrong_status(record)
        end = tracked.ends.get(record.root)
        if end is None:
            return f"record {record.root} neither canceled, settled nor lost {tracked.effect}"
        if end.payload is not None and slot_hash(record.payload) != end.payload:
            return f"its payload is not the one of record {record.root}"
        return None if record.status == end.status else _wrong_status(record)

    def cancel(self, intent: Hash, seq: int) -> None:
        """Note that record ``seq`` is an operator's command to end an intent."""
        self._ends(intent, seq, _End(BY_CANCEL), "canceled")

    def settle(self, intent: Hash, record: Control) -> None:
        """Note that ``record`` is an operator's command to settle an intent."""
        if record.status is None or record.payload is None:
            return  # reported as a command of another shape
        self._ends(intent, record.seq, _End(record.status, slot_hash(record.payload)), "settled")
        self.values.bytes_of(record.payload)

    def _ends(self, intent: Hash, seq: int, end: _End, end_word: str) -> None:
        tracked = self._tracked.get(intent)
        if tracked is None:
            return
        if tracked.effect in KERNEL_EFFECTS:
            self.checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{tracked.effect} is answered by the core itself: it cannot be {end_word}",
            )
        tracked.ends[seq] = end

    def cancel_all(self, seq: int) -> None:
        """Note that record ``seq`` ends every intent that executors run."""
        for tracked in self._tracked.values():
            if tracked.effect not in KERNEL_EFFECTS:
                tracked.ends[seq] = _End(BY_CANCEL)

    # Attempts.

    def attempt(self, record: Attempt) -> None:
        tracked = self._tracked.get(record.intent)
        if tracked is None:
            return
        if tracked.cell != record.cell:
            self.checking.add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    "it is about another intent than it says",
                    expected=f"one of {tracked.cell[0]}",
                    actual=f"one of {record.cell[0]}",
                ),
            )
        problem = _attempt_problem(record, tracked)
        if problem is not None:
            self.checking.add(FindingKind.ATTEMPT_WRONG, problem)
        match record.phase:
            case "begun":
                tracked.attempt = max(tracked.attempt, record.attempt)
                tracked.halt = None
            case "lost":
                tracked.ends[record.seq] = _End(BY_LOSS)
            case "held" | "parked":
                tracked.halt = record.phase
            case _:
                assert_never(record.phase)


def _end_of(owed: Owed) -> _End:
    settled = owed.settlement
    if settled is not None:
        return _End(settled.status, slot_hash(settled.payload))
    return _End(BY_LOSS if owed.debt is Debt.LOSS else BY_CANCEL)


def _wrong_status(record: KernelReceipt) -> str:
    return f"it does not end a {record.effect} as {record.status}"


def _attempt_problem(record: Attempt, tracked: _TrackedIntent) -> str | None:
    last = tracked.attempt
    if tracked.effect in KERNEL_EFFECTS:
        return f"{tracked.effect} is answered by the core itself: no executor runs it"
    if record.phase in HALTS:
        return _halt_problem(record, last)
    if record.code is not None:
        return "it has a code, and is neither held nor parked"
    if record.phase == LOST:
        if tracked.is_once and last and record.attempt == last and tracked.halt is None:
            return None
        halt_text = "" if tracked.halt is None else f", and is {tracked.halt}"
        return (
            f"attempt {record.attempt} of {tracked.effect} cannot be lost: the last was "
            f"{last}{halt_text}"
        )
    may_repeat = tracked.halt == HELD and record.attempt == last + 1
    if tracked.is_once and not may_repeat and (last or record.attempt != 1):
        expected = f"none after attempt {last}" if last else "attempt 1"
        return (
            f"{tracked.effect} may run only once: expected {expected}, found attempt "
            f"{record.attempt}"
        )
    if record.attempt > last:
        return None
    return f"expected an attempt after {last}, found {record.attempt}"


def _halt_problem(record: Attempt, last: int) -> str | None:
    if not last or record.attempt != last:
        return f"attempt {record.attempt} cannot be {record.phase}: the last was {last}"
    if not 0 < len((record.code or "").encode()) <= CODE_BYTES_MAX:
        return f"a {record.phase} attempt has a code of 1 to {CODE_BYTES_MAX} bytes"
    return None
