"""The core as one object: inputs and the ring go in, frames come out (spec/kernel.md, K-1 to K-6).

    admit(input, stamp)   decide, record, fold
    step()                run the ring's head once: decide, record, fold
    seal(salt)            everything since the last seal becomes one frame

The kernel does no I/O: it is given a runner for modules and a reader for blobs, and both are
functions. The same object runs live, in tests and under replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aos.core.decide.admit import TIME_MAX, admit_event, admit_manifest, admit_snapshot, admit_start
from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal
from aos.core.decide.control import admit_control
from aos.core.decide.migration import Failed, Keep, Puts, migrate
from aos.core.decide.owed import decide_owed
from aos.core.decide.quiescence import Change
from aos.core.decide.settle import admit_attempt, admit_receipt, admit_stream
from aos.core.decide.step import decide_step
from aos.core.journal.frame import Frame, Tip, seal
from aos.core.journal.identity import ENTROPY_BYTES, world_id
from aos.core.journal.inputs import (
    SEMANTICS,
    AttemptInput,
    ControlInput,
    EventInput,
    GenesisInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StartInput,
    StreamInput,
)
from aos.core.journal.ports import BlobReader, Runner, Verify
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import (
    Control,
    Event,
    Faulted,
    Fork,
    Genesis,
    KernelReceipt,
    Migrated,
    Receipt,
    Record,
    Snapshot,
    Stamp,
    Step,
)
from aos.core.journal.signing import is_signed
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import fold
from aos.core.state.state import Mark, State, empty
from aos.errors import Refused
from aos.manifest.builtins import KERNEL_EFFECTS
from aos.values.digests import Hash, digest


@dataclass(frozen=True, slots=True)
class Settled:
    """An intent that ended, the record that says so, and what tells one receipt from another."""

    intent: Hash
    seq: int
    receipt: Hash


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission id and the record that it names."""

    submission_id: str
    seq: int
    payload: Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A frame, and everything that must become durable or known with it.

    ``opened`` are all intents that its steps opened, ``to_publish`` those of them that are still
    open at its end and that executors run: they get them once the frame is durable, and not
    before. ``abandoned`` and ``canceled`` are intents that executors may drop: nobody waits for the
    former, the core itself settled the latter. ``erased`` are values whose bytes go when the frame
    comes.
    """

    frame: Frame
    tip: Tip
    blobs: Mapping[Hash, bytes]
    opened: tuple[OpenIntent, ...]
    settled: tuple[Settled, ...]
    abandoned: tuple[Hash, ...]
    submissions: tuple[Submitted, ...]
    canceled: tuple[Hash, ...] = ()
    erased: tuple[Hash, ...] = ()
    snapshots: tuple[Mark, ...] = ()

    @property
    def to_publish(self) -> tuple[OpenIntent, ...]:
        over = {*self.abandoned, *[each.intent for each in self.settled]}
        return tuple(
            each
            for each in self.opened
            if each.intent not in over and each.effect.name not in KERNEL_EFFECTS
        )


def receipt_digest(given: ReceiptInput | Receipt | KernelReceipt) -> Hash:
    """What two receipts for one intent must share to be the same: the signature and its key."""
    if isinstance(given, KernelReceipt):
        return digest("aos/receipt-id/1", given.intent, b"", b"")
    return digest("aos/receipt-id/1", given.intent, given.key_id, given.signature)


def genesis(
    given: GenesisInput, stamp: Stamp, salt: bytes, *, limits: Limits = LIMITS
) -> tuple[State, Sealed]:
    """Make a world: its state after the genesis record, and the frame that holds it.

    Raises:
        Refused: The world's key did not sign it.
    """
    message = GenesisInput.message(given.nonce, given.world_key, given.operators)
    if not is_signed(message, given.signature, given.world_key):
        raise Refused("genesis: the signature is not the world key's")
    world = world_id(given.nonce, given.world_key)
    state = empty(Tip(world=world), _no_blobs, limits=limits)
    kernel = Kernel(state, runner=None, read=_no_blobs)
    kernel.append(
        Genesis(
            seq=1,
            stamp=stamp,
            nonce=given.nonce,
            world_key=given.world_key,
            operators=given.operators,
            semantics=SEMANTICS,
            signature=given.signature,
        ),
        {},
    )
    sealed = kernel.seal(salt)
    assert sealed is not None
    return kernel.state, sealed


class Kernel:
    """Owns one world's state. Not thread-safe: one thread calls it.

    ``read`` must find every blob of every frame that this kernel sealed or folded, durable or not.
    ``verify`` is ``is_signed`` or what remembers its answers. ``migrator`` runs migrations where
    nothing else is run; ``keep`` makes the many blobs of one durable beside the journal, which
    otherwise go with its frame.
    """

    def __init__(
        self,
        state: State,
        *,
        runner: Runner | None,
        read: BlobReader,
        verify: Verify = is_signed,
        migrator: Runner | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.state = state
        self._runner = runner
        self._migrator = migrator or runner
        self._keep = keep
        self._host_read = read
        state.cells.read_with(self.read)
        state.submissions.read_with(self.read)
        self._verify = verify
        self._records: list[bytes] = []
        self._blobs: dict[Hash, bytes] = {}
        self._opened: list[OpenIntent] = []
        self._settled: list[Settled] = []
        self._abandoned: list[Hash] = []
        self._canceled: list[Hash] = []
        self._erased: list[Hash] = []
        self._submissions: list[Submitted] = []
        self._snapshots: list[Mark] = []
        self.pending_bytes = 0
        self.last_engine_text: str | None = None

    @property
    def pending_records(self) -> int:
        """Records since the last seal."""
        return len(self._records)

    def admit(self, given: Input, stamp: Stamp) -> Answer:
        """Decide an input; admitted, it is a folded record. It counts once its frame is durable.

        Raises:
            Damage: A blob that the decision needs is missing or altered. Nothing has changed.
        """
        assert 0 <= stamp.ns <= TIME_MAX, f"a stamp of {stamp.ns} ns"
        assert len(stamp.entropy) == ENTROPY_BYTES, f"a stamp with {len(stamp.entropy)} bytes"
        blobs: dict[Hash, bytes] = {}
        decided: Record | Duplicate | Refusal
        match given:
            case EventInput():
                decided = admit_event(self.state, given, stamp, blobs)
            case ReceiptInput():
                decided = admit_receipt(
                    self.state, given, stamp, blobs, self.read, verify=self._verify
                )
            case StreamInput():
                decided = admit_stream(self.state, given, stamp, blobs, verify=self._verify)
            case AttemptInput():
                decided = admit_attempt(self.state, given, stamp)
            case SnapshotInput():
                decided = admit_snapshot(self.state, given, stamp)
            case ControlInput():
                decided = admit_control(self.state, given, stamp, self.read)
            case ManifestInput():
                decided = admit_manifest(
                    self.state, given, stamp, blobs, read=self.read, migrator=self._migrate
                )
            case StartInput():
                decided = admit_start(self.state, given, stamp)
            case GenesisInput():
                raise AssertionError("a world has one genesis: see genesis()")
        if isinstance(decided, Duplicate | Refusal):
            return decided
        self.append(decided, blobs)
        match decided:
            case Event(to=to):
                return Admitted(seq=decided.seq, to=to)
            case Receipt(outcome=came):
                return Admitted(seq=decided.seq, outcome=came)
            case _:
                return Admitted(seq=decided.seq)

    def _migrate(self, change: Change, blobs: dict[Hash, bytes]) -> tuple[Migrated, ...] | Failed:
        assert self._migrator is not None, "this kernel runs no module"
        puts = Puts(self.read, self._keep, kept_bytes=self.state.limits.kept_bytes)
        found = migrate(self.state, change, self._migrator, self.read, puts)
        blobs.update(puts.left)
        return found

    @property
    def has_work(self) -> bool:
        """Whether ``step`` has something to do. What the core owes needs no runner."""
        state = self.state
        return bool(state.owed) or (self._runner is not None and bool(state.ring))

    def step(self) -> Step | Faulted | KernelReceipt | None:
        """Make the first receipt that the core owes, or else run the ring's head once; None when
        there is neither.

        Raises:
            Damage: A blob that the step needs is missing or altered. Nothing has changed.
        """
        if self.state.owed:
            receipt, blobs = decide_owed(self.state, self.read)
            self.append(receipt, blobs)
            return receipt
        if not self.state.ring:
            return None
        assert self._runner is not None, "this kernel only admits"
        decided = decide_step(self.state, self._runner, self.read)
        self.last_engine_text = decided.engine_text
        self.append(decided.record, decided.blobs)
        return decided.record

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        """Take a decided record. Replay uses this for records that it does not decide again.

        Raises:
            Damage: It cannot follow. The state is then of no use.
        """
        # First of all: what cannot be written must not be folded either.
        data = to_bytes(record)
        self._blobs.update(blobs)
        if self._erased and blobs:
            # What comes again after it was erased stays.
            self._erased = [each for each in self._erased if each not in blobs]
        fold(self.state, record, self.read)
        self._records.append(data)
        self.pending_bytes += len(data)
        self._note(record)

    def _note(self, record: Record) -> None:
        match record:
            case Step():
                self._opened.extend(self.state.intents[each.intent] for each in record.intents)
                self._abandoned.extend(record.abandoned)
            case Receipt() | KernelReceipt():
                self._settled.append(Settled(record.intent, record.seq, receipt_digest(record)))
                self._abandoned.extend(record.abandoned)
                if isinstance(record, KernelReceipt) and record.effect not in KERNEL_EFFECTS:
                    self._canceled.append(record.intent)
            case Control(action="erase", value=bytes(value)):
                self._blobs.pop(Hash(value), None)
                self._erased.append(Hash(value))
            case Fork():
                assert len(self._records) == 1, "a fork is the first record of its frame"
                self._erased.extend(record.erased)
            case Snapshot():
                mark = self.state.snapshot
                assert mark is not None
                self._snapshots.append(mark)
            case Event(submission_id=str(name)):
                payload = self.state.submissions[name].payload
                self._submissions.append(Submitted(name, record.seq, payload))
            case _:
                pass

    def seal(self, salt: bytes) -> Sealed | None:
        """Make one frame of all records since the last seal; None when there are none."""
        if not self._records:
            return None
        frame, tip = seal(self.state.tip, self._records, salt)
        self.state.tip = tip
        spilled = self.state.cells.spill()
        if spilled:
            self._blobs.update(spilled)
            # What comes again after it was erased stays.
            self._erased = [each for each in self._erased if each not in spilled]
        sealed = Sealed(
            frame=frame,
            tip=tip,
            blobs=self._blobs,
            opened=tuple(self._opened),
            settled=tuple(self._settled),
            abandoned=tuple(self._abandoned),
            submissions=tuple(self._submissions),
            canceled=tuple(self._canceled),
            erased=tuple(self._erased),
            snapshots=tuple(self._snapshots),
        )
        self._records = []
        self._blobs = {}
        self._opened = []
        self._settled = []
        self._abandoned = []
        self._submissions = []
        self._canceled = []
        self._erased = []
        self._snapshots = []
        self.pending_bytes = 0
        return sealed

    def read(self, hash: Hash) -> bytes:
        """Return a blob: of the frame in the making, or the host's."""
        found = self._blobs.get(hash)
        return self._host_read(hash) if found is None else found


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"nothing was stored yet: {hash.hex()}")
