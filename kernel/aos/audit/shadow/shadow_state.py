"""The state of a shadow, and everything that changes it (spec/shadow.md, SH-3, SH-10).

Each record is decided by the kernel's own functions and folded by the kernel's own fold. Nothing is
signed and nothing is sealed. The caller says which sequence a record takes: that of its recorded
counterpart, or None for the next one from 2^62 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aos.audit.shadow.mail_pairs import EXTRA
from aos.audit.shadow.overlay import BlobOverlay
from aos.core.decide.admit import admit_event
from aos.core.decide.answers import Duplicate, Refusal
from aos.core.decide.control import decide_control
from aos.core.decide.decided import Decided
from aos.core.decide.owed import decide_owed
from aos.core.decide.settle import admit_attempt, admit_stream, outcome
from aos.core.decide.step import decide_step
from aos.core.journal.inputs import AttemptInput, ControlInput, EventInput, StreamInput
from aos.core.journal.ports import Runner
from aos.core.journal.records import (
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Stamp,
    Step,
    slot,
)
from aos.core.journal.vocabulary import ReceiptOutcome, ReceiptStatus
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import advance_clock, fold
from aos.core.state.state import State
from aos.manifest.names import NODE
from aos.values.digests import Hash

NO_SIGNATURE = bytes(64)


class ShadowState:
    """``touched`` are the cells that a record changed since the caller last emptied it."""

    def __init__(self, state: State, runner: Runner, overlay: BlobOverlay) -> None:
        self.state = state
        self.touched: list[CellId] = []
        self.extra = 0
        """How many records without a counterpart there are."""
        self._runner = runner
        self._overlay = overlay

    def pass_by(self, stamp: Stamp) -> None:
        """Take note of the time of a recorded input."""
        advance_clock(self.state, stamp)

    def begin_record(self, seq: int | None) -> int:
        """Make ``seq`` the sequence of the next record."""
        if seq is None:
            seq = EXTRA + self.extra
            self.extra += 1
        self.state.next_seq = seq
        return seq

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        if blobs:
            self._overlay.keep(blobs)
        fold(self.state, record, self._overlay.read)
        self.touched.extend(cells_of(record))

    def step(self, id: CellId, seq: int | None) -> Step | Faulted:
        """Run the first entry of a cell that is in the ring.

        Raises:
            Erased: A value that the step needs was erased. Nothing has changed.
        """
        state = self.state
        if state.ring[0] != id:
            state.ring.remove(id)
            state.ring.appendleft(id)
        next_seq, extra = state.next_seq, self.extra
        self.begin_record(seq)
        try:
            decided = decide_step(state, self._runner, self._overlay.read)
        except BaseException:
            state.next_seq, self.extra = next_seq, extra
            raise
        assert isinstance(decided.record, Step | Faulted)
        self.append(decided.record, decided.blobs)
        return decided.record

    def answer_owed(self, seq: int | None) -> KernelReceipt:
        """Make the first receipt that the core owes. Raises as ``step``."""
        next_seq, extra = self.state.next_seq, self.extra
        self.begin_record(seq)
        try:
            decided = decide_owed(self.state, self._overlay.read)
        except BaseException:
            self.state.next_seq, self.extra = next_seq, extra
            raise
        assert isinstance(decided.record, KernelReceipt)
        self.append(decided.record, decided.blobs)
        return decided.record

    def admit(
        self,
        recorded_input: EventInput | AttemptInput | StreamInput | ControlInput,
        stamp: Stamp,
        seq: int,
    ) -> str | None:
        """Admit a recorded input under its own sequence; return why the shadow refuses it.

        Raises:
            Erased: A value that the decision needs was erased. Nothing has changed.
        """
        self.begin_record(seq)
        decided = self._decided(recorded_input, stamp)
        if isinstance(decided, Decided):
            self.append(decided.record, decided.blobs)
            return None
        return decided.text if isinstance(decided, Refusal) else f"duplicate of {decided.seq}"

    def _decided(
        self, recorded_input: EventInput | AttemptInput | StreamInput | ControlInput, stamp: Stamp
    ) -> Decided | Duplicate | Refusal:
        state, read = self.state, self._overlay.read
        match recorded_input:
            case EventInput():
                return admit_event(state, recorded_input, stamp, read)
            case AttemptInput():
                return admit_attempt(state, recorded_input, stamp)
            case StreamInput():
                return admit_stream(state, recorded_input, stamp, verify=_unsigned)
            case ControlInput():
                return decide_control(
                    state, replace(recorded_input, serial=state.controls), stamp, read
                )

    def settle(
        self,
        intent: OpenIntent,
        status: ReceiptStatus,
        payload: bytes,
        stamp: Stamp,
        *,
        seq: int | None = None,
        recorded: Receipt | None = None,
        blobs: Mapping[Hash, bytes] | None = None,
    ) -> Receipt:
        """Settle an intent that is open or abandoned, as a receipt of an executor does; all that
        the shadow does not decide is that of ``recorded``."""
        state, new_blobs = self.state, dict(blobs or {})
        receipt_outcome: ReceiptOutcome = "abandoned"
        schema, problem = None, None
        abandoned: tuple[Hash, ...] = ()
        if intent.intent in state.intents:
            receipt_outcome, schema, problem = outcome(state, intent, status, payload)
            if receipt_outcome == "faulted":
                inflight = state.cells[intent.cell].inflight
                abandoned = tuple(
                    inflight_intent
                    for inflight_intent in inflight
                    if inflight_intent != intent.intent
                )
        record = Receipt(
            seq=self.begin_record(seq),
            stamp=stamp,
            intent=intent.intent,
            cell=intent.cell,
            effect=intent.effect.name,
            attempt=max(1, state.attempt(intent)) if recorded is None else recorded.attempt,
            status=status,
            payload=slot(payload, new_blobs),
            payload_schema=schema,
            started_ns=stamp.ns if recorded is None else recorded.started_ns,
            finished_ns=stamp.ns if recorded is None else recorded.finished_ns,
            cost_cents=None if recorded is None else recorded.cost_cents,
            executor=NODE if recorded is None else recorded.executor,
            key_id=state.world_key if recorded is None else recorded.key_id,
            signature=NO_SIGNATURE if recorded is None else recorded.signature,
            outcome=receipt_outcome,
            problem=problem,
            abandoned=abandoned,
            batch=None if recorded is None else recorded.batch,
        )
        self.append(record, new_blobs)
        return record


def cells_of(record: Record) -> list[CellId]:
    """Return the cells that a record changed."""
    cells: list[CellId] = []
    cell = getattr(record, "cell", None)
    if cell is not None:
        cells.append(cell)
    if isinstance(record, Event):
        cells.extend(record.to)
        cells.extend(record.overloaded)
    elif isinstance(record, Step):
        for event in record.events:
            cells.extend(event.to)
            cells.extend(event.overloaded)
    return cells


def _unsigned(_message: bytes, _signature: bytes, _public_key: bytes, /) -> bool:
    return True
