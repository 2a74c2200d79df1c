"""The core as one object: it turns inputs and the ring into frames (spec/kernel.md, K-1 to K-6).

    admit(input, stamp)   decide, record, fold
    step()                run the ring's head once: decide, record, fold
    seal(salt)            make one frame of all records since the last seal

The kernel does no I/O: the host passes it a runner for modules and a reader for blobs, and both
are deterministic. The same object runs live, in tests and under replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.core.decide.admit import TIME_MAX, admit_event, admit_manifest, admit_snapshot, admit_start
from aos.core.decide.answers import Admitted, Answer, Decided, Duplicate, Refusal
from aos.core.decide.control import admit_control
from aos.core.decide.governed import admit_governance
from aos.core.decide.migration import Failed, Keep, MigratedCells, Puts, migrate
from aos.core.decide.owed import decide_owed
from aos.core.decide.quiescence import Change
from aos.core.decide.settle import admit_attempt, admit_receipt, admit_stream
from aos.core.decide.step import decide_step
from aos.core.journal.frame import Tip
from aos.core.journal.governing import GovernanceInput
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
    Genesis,
    KernelReceipt,
    Receipt,
    Record,
    Stamp,
    Step,
)
from aos.core.journal.signing import is_signed
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Pending, Sealed
from aos.core.state.fold import fold
from aos.core.state.state import State, empty
from aos.errors import Refused
from aos.values.digests import Hash

_OF_A_STEP: Final = (Step, Faulted, KernelReceipt)


def genesis(
    genesis_input: GenesisInput, stamp: Stamp, salt: bytes, *, limits: Limits = LIMITS
) -> tuple[State, Sealed]:
    """Make a world: its state after the genesis record, and the frame that holds it.

    Raises:
        Refused: The world's key did not sign the genesis.
    """
    message = GenesisInput.message(
        genesis_input.nonce, genesis_input.world_key, genesis_input.operators
    )
    if not is_signed(message, genesis_input.signature, genesis_input.world_key):
        raise Refused("genesis: the signature is not the world key's")
    world = world_id(genesis_input.nonce, genesis_input.world_key)
    state = empty(Tip(world=world), _no_blobs, limits=limits)
    kernel = Kernel(state, runner=None, read=_no_blobs)
    kernel.append(
        Genesis(
            seq=1,
            stamp=stamp,
            nonce=genesis_input.nonce,
            world_key=genesis_input.world_key,
            operators=genesis_input.operators,
            semantics=SEMANTICS,
            signature=genesis_input.signature,
        ),
        {},
    )
    sealed = kernel.seal(salt)
    assert sealed is not None
    return kernel.state, sealed


class Kernel:
    """Own the state of one world, and change it record by record. One thread calls it.

    ``runner`` runs modules; without one, the kernel only admits. ``read`` must find every blob of
    every frame that this kernel sealed or folded, durable or not. ``verify`` is ``is_signed``, or a
    cache of its answers. ``migrator`` runs migrations, for a kernel that has no runner. ``keep``
    commits a migration's blobs in their own transactions; without it they are committed with the
    frame.
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
        self._pending = Pending()
        self.last_engine_text: str | None = None

    @property
    def pending_records(self) -> int:
        """Records since the last seal."""
        return len(self._pending.records)

    @property
    def pending_bytes(self) -> int:
        """Bytes of the records since the last seal."""
        return self._pending.size

    def admit(self, input: Input, stamp: Stamp) -> Answer:
        """Decide an input and, unless it is refused, fold its record. The answer may leave the
        process once the frame of that record is durable, not before.

        Raises:
            Damage: A blob that the decision needs is missing or altered. Nothing has changed.
        """
        decided = self.decide(input, stamp)
        return self.enter(decided) if isinstance(decided, Decided) else decided

    def enter(self, decided: Decided) -> Admitted:
        """Fold the record that ``decide`` returned; nothing else may have changed the state since.

        The answer may leave the process once the frame of that record is durable, not before.
        """
        record = decided.record
        self.append(record, decided.blobs)
        match record:
            case Event(to=to):
                return Admitted(seq=record.seq, to=to)
            case Receipt(outcome=came):
                return Admitted(seq=record.seq, outcome=came)
            case Control():
                return Admitted(
                    seq=record.seq, dropped=record.dropped or 0, abandoned=len(record.abandoned)
                )
            case _:
                return Admitted(seq=record.seq)

    def decide(self, input: Input, stamp: Stamp) -> Decided | Duplicate | Refusal:
        """Decide an input: the record that admits it, or the answer if there is none. Nothing
        changes, so a host may still refuse what the rules of the kernel admit.

        Raises:
            Damage: As ``admit``.
        """
        assert 0 <= stamp.ns <= TIME_MAX, f"a stamp of {stamp.ns} ns"
        assert len(stamp.entropy) == ENTROPY_BYTES, f"a stamp with {len(stamp.entropy)} bytes"
        state = self.state
        match input:
            case EventInput():
                return admit_event(state, input, stamp, self.read)
            case ReceiptInput():
                return admit_receipt(state, input, stamp, self.read, verify=self._verify)
            case StreamInput():
                return admit_stream(state, input, stamp, verify=self._verify)
            case AttemptInput():
                return admit_attempt(state, input, stamp)
            case SnapshotInput():
                return admit_snapshot(state, input, stamp)
            case ControlInput():
                return admit_control(state, input, stamp, self.read)
            case GovernanceInput():
                return admit_governance(state, input, stamp, self.read)
            case ManifestInput():
                return admit_manifest(state, input, stamp, read=self.read, migrator=self._migrate)
            case StartInput():
                return admit_start(state, input, stamp)
            case GenesisInput():
                raise AssertionError("a world has one genesis: see genesis()")

    def _migrate(self, change: Change) -> MigratedCells | Failed:
        assert self._migrator is not None, "this kernel runs no module"
        puts = Puts(self.read, self._keep, kept_bytes=self.state.limits.kept_bytes)
        result = migrate(self.state, change, self._migrator, self.read, puts)
        return result if isinstance(result, Failed) else MigratedCells(result, puts.uncommitted)

    @property
    def has_work(self) -> bool:
        """Whether ``step`` has something to do. A receipt that the core owes needs no runner."""
        state = self.state
        return bool(state.owed) or (self._runner is not None and bool(state.ring))

    def step(self) -> Step | Faulted | KernelReceipt | None:
        """Make the first receipt that the core owes, or else run the ring's head once; None when
        there is neither.

        Raises:
            Damage: A blob that the step needs is missing or altered. Nothing has changed.
        """
        if self.state.owed:
            decided = decide_owed(self.state, self.read)
        elif self.state.ring:
            assert self._runner is not None, "this kernel only admits"
            decided = decide_step(self.state, self._runner, self.read)
            self.last_engine_text = decided.engine_text
        else:
            return None
        record = decided.record
        assert isinstance(record, _OF_A_STEP)
        self.append(record, decided.blobs)
        return record

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        """Fold a decided record and add it to the frame that is being filled. Replay calls this
        for the records that it does not decide again.

        Raises:
            Damage: The record cannot follow. The state must not be used any more.
        """
        # Encode first: a record that cannot be written must not be folded (K-2).
        data = to_bytes(record)
        if blobs:
            self._pending.keep(blobs)
            self._pending.replace(record, self.state)
        fold(self.state, record, self.read)
        self._pending.add(record, data, self.state)

    def seal(self, salt: bytes) -> Sealed | None:
        """Make one frame of all records since the last seal; None when there are none."""
        pending = self._pending
        if not pending.records:
            return None
        pending.keep(self.state.cells.spill())
        sealed = pending.seal(self.state.tip, salt)
        self.state.tip = sealed.tip
        self._pending = Pending()
        return sealed

    def read(self, hash: Hash) -> bytes:
        """Return a blob of the frame that is being filled, or else one of the host's."""
        pending_blob = self._pending.blobs.get(hash)
        return self._host_read(hash) if pending_blob is None else pending_blob


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"nothing was stored yet: {hash.hex()}")
