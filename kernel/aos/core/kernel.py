"""The reference kernel: it turns inputs and the ring into frames (spec/kernel.md, K-1 to K-6).

    admit(input, stamp)         decide, then enter
    next(), ran(how it ended)   decide a step of the ring's head, or a receipt that is owed
    enter(decided)              record and fold
    seal(salt)                  make one frame of all records since the last seal

The kernel does no I/O and runs no module: ``kernel_protocol`` says what it asks of its host. The
same object runs live, in tests and under replay.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from aos.core.decide.admit import TIME_MAX, admit_event, admit_manifest, admit_snapshot, admit_start
from aos.core.decide.answers import Decided, Decision, Refusal
from aos.core.decide.control import admit_control, uses_in_state
from aos.core.decide.governed import admit_governance
from aos.core.decide.migration import Asking
from aos.core.decide.owed import decide_owed
from aos.core.decide.settle import admit_attempt, admit_receipt, admit_stream
from aos.core.decide.step import StepRun, begin_step, end_step
from aos.core.journal.frame import Frame, Tip
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
from aos.core.journal.ports import BlobReader, Call, Ran, Verify
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import CellId, Genesis, Record, Stamp
from aos.core.journal.signing import is_signed
from aos.core.kernel_protocol import (
    KernelFigures,
    KernelMemory,
    KernelProtocol,
    Request,
    RingHead,
)
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Pending, Sealed
from aos.core.snapshot.load import layers, load
from aos.core.snapshot.take import rebase, take
from aos.core.state.cell import Cell
from aos.core.state.eras import ManifestOf
from aos.core.state.fold import fold, fold_frame
from aos.core.state.intent_progress import (
    IntentProgress,
    OpenTimer,
    open_intents,
    open_timers,
    progress_of,
)
from aos.core.state.state import State, empty
from aos.core.state.submissions import Find
from aos.core.state.version import manifest_under, writer_of
from aos.errors import Refused
from aos.manifest.effective import Effective, Workflow
from aos.manifest.names import TIMER
from aos.values.digests import Hash


def open_kernel(
    *,
    world: Hash | None = None,
    snapshot: Hash | None = None,
    read: BlobReader,
    find: Find | None = None,
    verify: Verify = is_signed,
    limits: Limits = LIMITS,
    manifest_of: ManifestOf = Effective.from_document,
    keeps: bool = False,
) -> KernelProtocol:
    """Return a kernel: of ``world`` before its genesis, or of the world in a snapshot, which its
    document names. ``follow`` brings it to the end of a journal.

    Args:
        read: Must find every blob of every frame that the kernel sealed or folded, durable or not.
        find: Returns the record of a submission id in the store.
        verify: ``is_signed``, or a cache of its answers.
        manifest_of: ``judge`` for the journal of another world, which may be forged.
        keeps: Whether the host makes blobs of a migration durable as they come (``Keep``). Without
            it they are committed with the frame.

    Raises:
        Damage: The snapshot cannot be read.
    """
    if snapshot is None:
        assert world is not None
        state = empty(Tip(world=world), read, find=find, limits=limits, manifest_of=manifest_of)
    else:
        state = load(snapshot, read, find=find, limits=limits, manifest_of=manifest_of)
    return Kernel(state, read=read, verify=verify, keeps=keeps)


def world_state(kernel: KernelProtocol) -> State:
    """Return the state of a kernel, for code that reads a world as data and changes nothing."""
    assert isinstance(kernel, Kernel)
    return kernel.state


def genesis(genesis_input: GenesisInput, stamp: Stamp, salt: bytes) -> Sealed:
    """Make a world: the frame of its genesis, which a kernel follows.

    Raises:
        Refused: The world's key did not sign the genesis.
    """
    message = GenesisInput.message(
        genesis_input.nonce, genesis_input.world_key, genesis_input.operators
    )
    if not is_signed(message, genesis_input.signature, genesis_input.world_key):
        raise Refused("genesis: the signature is not the world key's")
    world = world_id(genesis_input.nonce, genesis_input.world_key)
    kernel = open_kernel(world=world, read=_no_blobs)
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
    return sealed


class Kernel(KernelProtocol):
    """Owns the state of one world; see ``KernelProtocol`` for its methods, ``open_kernel`` for its
    arguments."""

    def __init__(
        self,
        state: State,
        *,
        read: BlobReader,
        verify: Verify = is_signed,
        keeps: bool = False,
    ) -> None:
        self.state = state
        self._host_read = read
        state.cells.read_with(self.read)
        state.submissions.read_with(self.read)
        self._verify = verify
        self._keeps = keeps
        self._pending = Pending()
        self._step: StepRun | None = None
        """The step whose call runs."""
        self._asking: Asking[Decided | Refusal] | None = None
        """The manifest whose migration runs."""

    # The world after the last record

    @property
    def tip(self) -> Tip:
        return self.state.tip

    @property
    def next_seq(self) -> int:
        return self.state.next_seq

    @property
    def manifest(self) -> Effective | None:
        return self.state.manifest

    def figures(self) -> KernelFigures:
        state = self.state
        proposals = state.proposals
        return KernelFigures(
            clock_ns=state.clock_ns,
            world_key=state.world_key,
            operators=state.operators,
            manifest=state.manifest,
            manifest_seq=state.manifest_seq,
            serial=state.serial,
            controls=state.controls,
            cells=len(state.cells),
            ready_cells=len(state.ring),
            open_intents=len(state.intents),
            open_timers=state.intents.counts[TIMER],
            snapshot=state.snapshot,
            proposed=proposals.count,
            proposals=proposals.open_proposals() if proposals.open else (),
        )

    def manifests(self) -> Sequence[Effective]:
        return [manifest_under(self.state, era.seq) for era in self.state.eras.all]

    # Inputs

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        assert 0 <= stamp.ns <= TIME_MAX, f"a stamp of {stamp.ns} ns"
        assert len(stamp.entropy) == ENTROPY_BYTES, f"a stamp with {len(stamp.entropy)} bytes"
        self._step = self._asking = None
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
                kept_bytes = state.limits.kept_bytes if self._keeps else None
                decision = admit_manifest(
                    state, input, stamp, read=self.read, kept_bytes=kept_bytes
                )
                if isinstance(decision, Decided | Refusal):
                    return decision
                self._asking = decision
                return self._asked(None)
            case StartInput():
                return admit_start(state, input, stamp)
            case GenesisInput():
                raise AssertionError("a world has one genesis: see genesis()")

    # Steps, and receipts that the core owes

    def has_work(self, *, steps: bool = True) -> bool:
        return bool(self.state.owed) or (steps and bool(self.state.ring))

    @property
    def ready_cells(self) -> int:
        return len(self.state.ring)

    def ring_head(self) -> RingHead | None:
        state = self.state
        if not state.ring:
            return None
        mail = state.cells[state.ring[0]].mailbox[0]
        return RingHead(state.ring[0], mail.entry, mail.root.seq, mail.depth)

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        self._step = self._asking = None
        if self.state.owed:
            return decide_owed(self.state, self.read)
        if not steps or not self.state.ring:
            return None
        run = begin_step(self.state, self.read)
        if isinstance(run, Decided):
            return run
        self._step = run
        return run.call

    def ran(self, ran: Ran) -> Request | Decision:
        run, self._step = self._step, None
        return self._asked(ran) if run is None else end_step(run, ran)

    def kept(self) -> Request | Decision:
        return self._asked(None)

    def _asked(self, answer: Ran | None) -> Request | Decision:
        asking, self._asking = self._asking, None
        assert asking is not None, "no decision waits for an answer"
        try:
            request = asking.send(answer)
        except StopIteration as end:
            decision: Decided | Refusal = end.value
            return decision
        self._asking = asking
        return request

    # Records and frames

    @property
    def pending_records(self) -> int:
        return len(self._pending.records)

    @property
    def pending_bytes(self) -> int:
        return self._pending.size

    @property
    def pending_blob_bytes(self) -> int:
        return self._pending.blob_bytes

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        self.enter(Decided(record=record, blobs=blobs))

    def enter(self, decided: Decided) -> None:
        record = decided.record
        # Encode first: a record that cannot be written must not be folded (K-2).
        data = to_bytes(record)
        if decided.blobs:
            self._pending.keep(decided.blobs)
            self._pending.replace(record, self.state)
        fold(self.state, record, self.read)
        self._pending.add(record, data, self.state)

    def follow(self, frame: Frame) -> None:
        assert not self._pending.records, "a frame is being filled"
        fold_frame(self.state, frame, self.read)

    def seal(self, salt: bytes) -> Sealed | None:
        pending = self._pending
        if not pending.records:
            return None
        pending.keep(self.state.cells.spill())
        sealed = pending.seal(self.state.tip, salt)
        self.state.tip = sealed.tip
        self._pending = Pending()
        return sealed

    # Reading

    def read(self, hash: Hash, /) -> bytes:
        pending_blob = self._pending.blobs.get(hash)
        return self._host_read(hash) if pending_blob is None else pending_blob

    def cell(self, id: CellId) -> Cell | None:
        return self.state.cells.get(id)

    def cells_of(self, workflow: str) -> Iterator[Cell]:
        return self.state.cells.of(workflow)

    def writer_of(self, id: CellId) -> Workflow | None:
        return writer_of(self.state, id)

    def takes_receipt(self, intent: Hash) -> bool:
        return intent in self.state.intents or intent in self.state.abandoned

    def progress_of(self, intent: Hash) -> IntentProgress | None:
        return progress_of(self.state, intent)

    def open_intents(self, *, but: str | None = None) -> Iterator[IntentProgress]:
        return open_intents(self.state, but=but)

    def open_timers(self, after: Hash | None, count: int) -> Sequence[OpenTimer]:
        return open_timers(self.state, after, count)

    def uses(self, value: Hash) -> Iterator[str]:
        return uses_in_state(self.state, value, self.read)

    # Memory and snapshots

    @property
    def memory(self) -> KernelMemory | None:
        return None

    @property
    def base(self) -> int:
        return self.state.cells.at

    @property
    def pins(self) -> Container[Hash]:
        return self.state.cells.spilling.pins

    def spill(self, *, resting_max: int | None = None) -> None:
        self.state.cells.spilling.is_on = True
        if resting_max is not None:
            self.state.cells.keep(resting_max)

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        snapshot = take(self.state, put, format=format)
        return SnapshotInput(
            at=snapshot.at,
            frame=snapshot.frame,
            document=snapshot.document,
            size=snapshot.size,
        )

    def rebase(self, document: Hash) -> None:
        rebase(self.state, layers(document, self.read))


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"nothing was stored yet: {hash.hex()}")
