"""The state of a shadow, and everything that changes it: the proposed manifest, then each record
(spec/shadow.md, SH-3, SH-4, SH-9, SH-10).

Each record is decided by the kernel's own functions and folded by the kernel's own fold. Nothing is
signed and nothing is sealed. The caller says which sequence a record takes: that of its recorded
counterpart, or None for the next one from 2^62 on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from aos.core.decide.admit import admit_event
from aos.core.decide.answers import Blocker, Decided, Duplicate, Refusal
from aos.core.decide.control import decide_control
from aos.core.decide.manifest_problems import keys_problem, leaves_problem
from aos.core.decide.migration import Failed, Puts, migrate
from aos.core.decide.owed import decide_owed
from aos.core.decide.quiescence import Change, blockers, misfits
from aos.core.decide.settle import admit_attempt, admit_stream, outcome
from aos.core.decide.step import decide_step
from aos.core.journal.inputs import (
    MIGRATE,
    PIN,
    STRICT,
    AttemptInput,
    ControlInput,
    EventInput,
    StreamInput,
)
from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.records import (
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Manifest,
    Migrated,
    Receipt,
    Record,
    Ref,
    Snapshot,
    Stamp,
    Start,
    Step,
    slot,
)
from aos.core.journal.vocabulary import ApplyMode, ReceiptOutcome, ReceiptStatus
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import advance_clock, fold
from aos.core.state.state import State
from aos.errors import Refused
from aos.manifest.effective import Effective
from aos.manifest.names import NODE
from aos.values.digests import Hash

EXTRA: Final = 1 << 62
"""From this sequence on, the records of a shadow have no recorded counterpart (SH-10)."""

NO_SIGNATURE = bytes(64)

NO_PRINCIPAL: Final = ""


_ReplacedRecord = Manifest | Snapshot | Start


class BlobOverlay:
    """Reads blobs of the journal, which stays as it is, and those that the shadow made (SH-3). Only
    blobs that the journal does not have are in memory."""

    def __init__(self, below: BlobReader, has: Callable[[Hash], bool]) -> None:
        self._below = below
        self._has = has
        self._blobs: dict[Hash, bytes] = {}

    def read(self, hash: Hash, /) -> bytes:
        """Return a blob. Raises: Damage: It is missing or altered; Erased: it was erased."""
        blob = self._blobs.get(hash)
        return self._below(hash) if blob is None else blob

    def keep(self, blobs: Mapping[Hash, bytes]) -> None:
        for hash, data in blobs.items():
            if not self._has(hash):
                self._blobs[hash] = data

    def put(self, hash: Hash, data: bytes) -> None:
        """Keep a blob without asking the journal for it."""
        self._blobs[hash] = data


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
                return admit_stream(state, recorded_input, stamp, verify=_accept_unsigned)
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


def _accept_unsigned(_message: bytes, _signature: bytes, _public_key: bytes, /) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The manifest whose shadow is made, the mode of its apply and the workflows that it leaves;
    with ``leaves_removed``, these are all workflows of the base that it does not have."""

    effective: Effective
    mode: ApplyMode = STRICT
    leaves: tuple[str, ...] = ()
    leaves_removed: bool = False

    def over(self, base: Effective) -> Proposed:
        """Return it with the workflows that it leaves of ``base``."""
        if not self.leaves_removed:
            return self
        removed = base.workflows.keys() - self.effective.workflows.keys()
        return replace(self, leaves=tuple(sorted(removed)), leaves_removed=False)

    def runs_as(self, record: Record) -> ApplyMode:
        """The mode in which it comes into force in the place of ``record`` (SH-9).

        A strict apply waits until nothing is in flight. History has instances in flight, so the
        shadow pins them. In the place of the base itself, the world is as it was before the base,
        which came into force in its own mode: strict if nothing was in flight."""
        if self.mode != STRICT:
            return self.mode
        return (record.mode or STRICT) if isinstance(record, Manifest) else PIN


def put_in_force(
    state: State,
    proposed: Proposed,
    replaced_record: _ReplacedRecord,
    *,
    runner: Runner,
    overlay: BlobOverlay,
) -> tuple[tuple[Blocker, ...], bool]:
    """Make ``proposed`` the manifest in force, in the place of a record (SH-4, SH-9). Return what
    would block its apply there, and whether that keeps the shadow from running; then ``state`` is
    unchanged.

    Raises:
        Refused: This world could never take the manifest.
        Damage: A stored state cannot be read.
    """
    effective, mode = proposed.effective, proposed.runs_as(replaced_record)
    problem = keys_problem(effective, state) or leaves_problem(effective, proposed.leaves)
    if problem is not None:
        raise Refused(f"the manifest cannot be shadowed: {problem}")
    # All of them: the report lists blockers in an order of its own.
    standing = blockers(
        state, _change(state, proposed, proposed.mode), overlay.read, limit=sys.maxsize
    )
    change = _change(state, proposed, mode)
    unfit = () if state.manifest is None else misfits(state, change, overlay.read)
    all_unfit = tuple(unfit)
    if all_unfit:
        return standing or all_unfit, True
    is_first = state.manifest is None
    migrated: tuple[Migrated, ...] = ()
    if mode == MIGRATE and not is_first:
        puts = Puts(overlay.read, None)
        migration = migrate(state, change, runner, overlay.read, puts)
        if isinstance(migration, Failed):
            return migration.blockers, True
        overlay.keep(puts.uncommitted)
        migrated = migration
    overlay.put(effective.hash, effective.document)
    record = Manifest(
        seq=replaced_record.seq,
        stamp=replaced_record.stamp,
        document=Ref(effective.hash, len(effective.document)),
        principal=NO_PRINCIPAL,
        serial=state.serial,
        signature=b"",
        mode=None if is_first or mode == STRICT else mode,
        leaves=proposed.leaves,
        migrated=migrated,
    )
    state.next_seq = replaced_record.seq
    fold(state, record, overlay.read)
    return standing, False


def _change(state: State, proposed: Proposed, mode: ApplyMode) -> Change:
    return Change(
        in_force=state.manifest, effective=proposed.effective, mode=mode, leaves=proposed.leaves
    )
