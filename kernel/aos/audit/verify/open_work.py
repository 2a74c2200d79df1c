"""Check the records about intents: receipts, stream frames, attempts, cancels (spec/audit.md, A-24
to A-26).

The checks cover who may sign a receipt or a stream frame, which intents the core may settle without
a signature, and which attempt may begin. The fold checks whether an intent is open at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aos.audit.verify.checking import Checking
from aos.audit.verify.findings import FindingKind
from aos.audit.verify.recorded_values import RecordedValues
from aos.core.journal.identity import intent_hash
from aos.core.journal.inputs import (
    BATCH_MAX,
    BEGUN,
    LOST,
    batch_message,
    receipt_leaf,
    receipt_message,
    stream_message,
)
from aos.core.journal.merkle import root_from
from aos.core.journal.records import (
    Attempt,
    CellId,
    Intent,
    KernelReceipt,
    Receipt,
    Slot,
    Step,
    Stream,
    slot_hash,
)
from aos.core.journal.signing import Executors, may_sign
from aos.core.state.state import Debt, State
from aos.errors import sentence
from aos.manifest.builtins import EFFECT_CANCEL, KERNEL_EFFECTS, TIMER, TIMER_CANCEL
from aos.manifest.effective import Workflow
from aos.manifest.keys import key_text
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem

CANCELS: Final = (TIMER_CANCEL, EFFECT_CANCEL)
BY_CANCEL: Final = "canceled"
BY_LOSS: Final = "error"
"""The status that the core gives a canceled intent, and the one for an intent whose only run was
lost."""


@dataclass(slots=True)
class _Opened:
    """The facts that later records about an intent are checked against. ``attempt`` is the
    current one, 0 if the first must still be journaled. ``ends`` maps each record that allows
    the core to settle the intent to the status that the receipt must have."""

    cell: CellId
    effect: str
    params: Slot
    executors: Executors
    is_once: bool
    attempt: int
    ends: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class OpenWork:
    """The intents that earlier records have opened and none has settled."""

    checking: Checking
    values: RecordedValues
    _opened: dict[Hash, _Opened] = field(default_factory=dict)

    def go_on(self, state: State) -> None:
        """Copy the open intents of ``state``, which is at the end of a frame."""
        for intent in (*state.intents.values(), *state.abandoned.values()):
            self._opened[intent.intent] = _Opened(
                cell=intent.cell,
                effect=intent.effect.name,
                params=intent.params,
                executors=intent.executors,
                is_once=intent.effect.delivery == "at_most_once",
                attempt=state.attempt(intent),
            )
        for owed in state.owed:
            opened = self._opened.get(owed.intent)
            if opened is not None and owed.why is not Debt.ANSWER:
                opened.ends[owed.root.seq] = BY_LOSS if owed.why is Debt.LOSS else BY_CANCEL

    def open(self, record: Step, index: int, intent: Intent, workflow: Workflow | None) -> None:
        checking, where = self.checking, f"intents[{index}]"
        effective = checking.effective
        effect = effective.effects.get(intent.effect) if effective else None
        is_once = effect is not None and effect.delivery == "at_most_once"
        self._opened[intent.intent] = _Opened(
            cell=record.cell,
            effect=intent.effect,
            params=intent.params,
            executors=checking.executors,
            is_once=is_once,
            attempt=0 if is_once else 1,
        )
        self.values.normal(effect.params if effect else None, intent.params, f"{where}.params")
        if workflow is None:
            return
        if effect is None or intent.effect not in workflow.effects_emitted:
            checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{where}: {intent.effect} is not in effects_emitted of {workflow.name}",
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
                    f"{where}: its hash is not over what it asks for",
                    expected=hash_text(expected),
                    found=hash_text(intent.intent),
                ),
            )

    # Records of executors.

    def receipt(self, record: Receipt) -> None:
        opened = self._opened.pop(record.intent, None)
        self._about(record, opened)
        self._signer(record, opened)
        self._attempt_counts(record, opened)
        message = self._signed_receipt(record)
        if message is None:
            self.checking.counts.signatures += 1
            self.checking.add(
                FindingKind.SIGNATURE_WRONG,
                "the path of its batch leads to no root that could be signed",
            )
        else:
            whose = f"{record.executor}'s"
            self.checking.signature(message, record.signature, record.key_id, whose)
        self._payload(record)
        if opened is not None and record.effect == TIMER and record.status == "ok":
            self._due(opened)

    def stream(self, record: Stream) -> None:
        opened = self._opened.get(record.intent)
        self._about(record, opened)
        self._signer(record, opened)
        self._attempt_counts(record, opened)
        message = stream_message(
            world=self.checking.world,
            intent=record.intent,
            effect=record.effect,
            executor=record.executor,
            key_id=record.key_id,
            attempt=record.attempt,
            frame_seq=record.frame_seq,
            frame_kind=record.frame_kind,
            payload=slot_hash(record.payload),
            payload_ref=record.payload_ref,
        )
        self.checking.signature(message, record.signature, record.key_id, f"{record.executor}'s")
        self.values.bytes_of(record.payload)

    def _signed_receipt(self, record: Receipt) -> bytes | None:
        """Return the message that the receipt's signature is over, with the hash of its payload;
        None if the path of a batch gives no root."""
        message = receipt_message(
            world=self.checking.world,
            intent=record.intent,
            effect=record.effect,
            executor=record.executor,
            key_id=record.key_id,
            attempt=record.attempt,
            status=record.status,
            payload=slot_hash(record.payload),
            started_ns=record.started_ns,
            finished_ns=record.finished_ns,
            cost_cents=record.cost_cents,
        )
        if record.batch is None:
            return message
        index, size, path = record.batch.index, record.batch.size, record.batch.path
        if size > BATCH_MAX or len(path) > BATCH_MAX.bit_length():
            return None
        root = root_from(receipt_leaf(message), index, size, path)
        if root is None:
            return None
        return batch_message(
            world=self.checking.world,
            executor=record.executor,
            key_id=record.key_id,
            root=root,
            size=size,
        )

    def _about(self, record: Receipt | KernelReceipt | Stream, opened: _Opened | None) -> None:
        """Check that a receipt or frame names the intent's own cell and effect."""
        if opened is not None and (opened.cell, opened.effect) != (record.cell, record.effect):
            what = "is about" if isinstance(record, Stream) else "settles"
            self.checking.add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    f"it {what} another intent than it says",
                    expected=f"{opened.effect} of {opened.cell[0]}",
                    found=f"{record.effect} of {record.cell[0]}",
                ),
            )

    def _signer(self, record: Receipt | Stream, opened: _Opened | None) -> None:
        """Check that this key could sign for the effect when the intent was opened, and is not
        revoked."""
        checking = self.checking
        if checking.effective is None or checking.genesis is None or opened is None:
            return
        if record.effect in KERNEL_EFFECTS:
            checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{record.effect} is answered by the core itself: nobody signs for it, found "
                f"{record.executor}",
            )
        elif not may_sign(
            opened.executors,
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

    def _attempt_counts(self, record: Receipt | Stream, opened: _Opened | None) -> None:
        least = 1 if opened is None else max(1, opened.attempt)
        if record.attempt < least:
            self.checking.add(
                FindingKind.ATTEMPT_WRONG,
                sentence(
                    "it is of an attempt that counts no more",
                    expected=f"attempt {least} or a later one",
                    found=f"attempt {record.attempt}",
                ),
            )

    def _payload(self, record: Receipt | KernelReceipt) -> None:
        effective, schema = self.checking.effective, None
        if record.outcome == "delivered" and effective is not None:
            schema = effective.schemas.get(record.payload_schema or "")
            if schema is None:
                self.checking.add(
                    FindingKind.VALUE_INVALID,
                    f"payload: delivered by schema {record.payload_schema}, which is not in force",
                )
        self.values.as_it_came(schema, record.payload, "payload")

    def _due(self, opened: _Opened) -> None:
        effective = self.checking.effective
        effect = effective.effects.get(opened.effect) if effective else None
        data = None if effect is None else self.values.held(opened.params)
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
                    found=f"{self.checking.clock_ns} ns",
                ),
            )

    # Intents that the core settles itself.

    def kernel_receipt(self, record: KernelReceipt) -> None:
        opened = self._opened.pop(record.intent, None)
        self._about(record, opened)
        problem = None if opened is None else self._unfounded(record, opened)
        if problem is not None:
            self.checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"nobody signed it, and the core may not make it: {problem}",
            )
        self._payload(record)

    def _unfounded(self, record: KernelReceipt, opened: _Opened) -> str | None:
        """Return why no earlier record allows the core to settle this intent so; None if one
        does."""
        is_own = opened.effect in KERNEL_EFFECTS
        if record.by is not None:
            by = self._opened.get(record.by)
            if by is None or by.effect not in CANCELS or by.cell != opened.cell:
                return f"intent {hash_text(record.by)} is no open cancel effect of its cell"
            return None if not is_own and record.status == BY_CANCEL else _wrong_status(record)
        if is_own:
            return None if record.status in ("ok", "error") else _wrong_status(record)
        status = opened.ends.get(record.root)
        if status is None:
            return f"record {record.root} neither canceled nor lost {opened.effect}"
        return None if record.status == status else _wrong_status(record)

    def cancel(self, intent: Hash, seq: int) -> None:
        """Note that record ``seq`` is an operator's command to end an intent."""
        opened = self._opened.get(intent)
        if opened is None:
            return
        if opened.effect in KERNEL_EFFECTS:
            self.checking.add(
                FindingKind.AUTHORITY_MISSING,
                f"{opened.effect} is answered by the core itself: it cannot be canceled",
            )
        opened.ends[seq] = BY_CANCEL

    def cancel_all(self, seq: int) -> None:
        """Note that record ``seq`` ends every intent that executors run."""
        for opened in self._opened.values():
            if opened.effect not in KERNEL_EFFECTS:
                opened.ends[seq] = BY_CANCEL

    # Attempts.

    def attempt(self, record: Attempt) -> None:
        opened = self._opened.get(record.intent)
        if opened is None:
            return
        if opened.cell != record.cell:
            self.checking.add(
                FindingKind.IDENTITY_WRONG,
                sentence(
                    "it is about another intent than it says",
                    expected=f"one of {opened.cell[0]}",
                    found=f"one of {record.cell[0]}",
                ),
            )
        problem = _attempt_problem(record, opened)
        if problem is not None:
            self.checking.add(FindingKind.ATTEMPT_WRONG, problem)
        if record.phase == BEGUN:
            opened.attempt = max(opened.attempt, record.attempt)
        else:
            opened.ends[record.seq] = BY_LOSS


def _wrong_status(record: KernelReceipt) -> str:
    return f"it does not end a {record.effect} as {record.status}"


def _attempt_problem(record: Attempt, opened: _Opened) -> str | None:
    last = opened.attempt
    if opened.effect in KERNEL_EFFECTS:
        return f"{opened.effect} is answered by the core itself: nobody runs it"
    if record.phase == LOST:
        if opened.is_once and last and record.attempt == last:
            return None
        return f"attempt {record.attempt} of {opened.effect} cannot be lost: the last was {last}"
    if opened.is_once and (last or record.attempt != 1):
        expected = f"none after attempt {last}" if last else "attempt 1"
        return (
            f"{opened.effect} may run only once: expected {expected}, found attempt "
            f"{record.attempt}"
        )
    if record.attempt > last:
        return None
    return f"expected an attempt after {last}, found {record.attempt}"
