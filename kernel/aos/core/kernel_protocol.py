"""The methods of a kernel, for its host (spec/core.md, CR-1 to CR-12).

``Kernel`` is the reference; a second kernel has the same protocol and gives the same
answers, frames and snapshots, byte for byte. A host, ``aos.testing``, replay and the simulator use
only what is defined here. Code that reads a world as data (views, verify, dry runs) loads a
``State`` instead.

    decide(input, stamp) ─▶ Decided ─▶ enter ─▶ ... ─▶ seal(salt) ─▶ Sealed
    next() ─▶ Call ─▶ ran(how it ended) ─▶ Decided ─▶ enter

A kernel calls nothing but its ``BlobReader``, its ``Verify`` and its ``Find``. One thread owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from aos.core.decide.answers import Answer, Decided, Decision, admission
from aos.core.journal.faults import Fault
from aos.core.journal.frame import Frame, StoredFrame, Tip
from aos.core.journal.inputs import Input, SnapshotInput
from aos.core.journal.ports import BlobReader, Call, Keep, Ran, Runner, Verify
from aos.core.journal.records import CellId, EntryId, Faulted, Principal, Record, Slot, Stamp
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import CellStatus, TerminalStatus
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.core.state.eras import ManifestOf
from aos.core.state.intent_progress import IntentProgress, OpenTimer
from aos.core.state.proposals import OpenProposal
from aos.core.state.state import Mark
from aos.core.state.submissions import Find
from aos.manifest.effective import Effective, Workflow
from aos.values.digests import Hash


class KernelFigures(NamedTuple):
    """The world in figures after the last record: ``cells`` in all, ``ready_cells`` in the ring,
    ``serial`` manifest records, ``controls`` control records, ``proposed`` proposals, of which
    ``proposals`` are open. Of the ``open_intents``, ``open_timers`` are of ``sys/timer.set@1``.
    ``snapshot`` is the newest one in the journal."""

    clock_ns: int
    world_key: bytes
    operators: tuple[Principal, ...]
    manifest: Effective | None
    manifest_seq: int
    serial: int
    controls: int
    cells: int
    ready_cells: int
    open_intents: int
    open_timers: int
    snapshot: Mark | None
    proposed: int
    proposals: tuple[OpenProposal, ...]


class RingHead(NamedTuple):
    """The entry that ``next`` runs when no receipt is owed: the first of the cell at the head of
    the ring, with the record that caused it and its distance from that (K-45)."""

    cell: CellId
    entry: EntryId
    root: int
    depth: int


class KernelMemory(NamedTuple):
    """Bytes that a kernel uses of those that it may use, and the setting that bounds it, in words
    for the operator."""

    used: int
    allowed: int
    setting: str


class FrameBounds(NamedTuple):
    """The bytes of records, and of the blobs that came with them, at which a frame is full."""

    record_bytes: int
    blob_bytes: int


class CellView(Protocol):
    """A cell for reading. It may change with the next record."""

    @property
    def id(self) -> CellId: ...
    @property
    def state(self) -> Slot | None: ...
    @property
    def declared(self) -> TerminalStatus | None: ...
    @property
    def fault(self) -> Fault | None: ...
    @property
    def fault_seq(self) -> int | None: ...
    @property
    def last_seq(self) -> int: ...
    @property
    def status(self) -> CellStatus: ...


Request: TypeAlias = Call | Keep
"""A decision waits for its answer: ``ran`` answers a ``Call``, ``kept`` a ``Keep``."""


class KernelProtocol(Protocol):
    """One world: it decides, changes record by record, and becomes frames.

    A decision changes nothing; ``enter`` applies it. So a host may drop any decision, and replay
    compares one before it enters it. ``Damage`` means that a blob is missing or altered. If it is
    raised while the kernel decides or reads, nothing has changed, as with exceptions of the host's
    own functions. After a ``Damage`` while a record is entered, appended or followed, the kernel
    cannot be used any more. ``admit``, ``admit_all`` and ``end_step`` consist of other methods; a
    kernel may do each in one call.
    """

    # The world after the last record

    @property
    def tip(self) -> Tip:
        """The end of the last sealed or followed frame."""
        ...

    @property
    def next_seq(self) -> int:
        """The sequence of the next record."""
        ...

    @property
    def manifest(self) -> Effective | None:
        """The manifest in force."""
        ...

    def figures(self) -> KernelFigures: ...

    def manifests(self) -> Sequence[Effective]:
        """The manifests that instances may still run under, that in force last. Raises Damage."""
        ...

    # Inputs

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        """Decide an input. Only a manifest that migrates asks for something first. A decision that
        waits is dropped by the next ``decide`` or ``next``. Raises Damage."""
        ...

    def admit(self, input: Input, stamp: Stamp) -> Answer:
        """Decide an input that asks for nothing, and enter it unless it is refused. The answer may
        leave the process once the record's frame is durable. Raises Damage."""
        decision = self.decide(input, stamp)
        if isinstance(decision, Decided):
            self.enter(decision)
            return admission(decision.record)
        assert isinstance(decision, Answer), "a manifest that migrates is not admitted at once"
        return decision

    def admit_all(
        self, inputs: Sequence[tuple[Input, Stamp]], bounds: FrameBounds
    ) -> Sequence[Answer]:
        """Admit inputs, of which there is one at least, one after another until the frame is full,
        and answer as many. Raises Damage, as ``admit`` of one of them: those before it are in the
        frame."""
        answers: list[Answer] = []
        for input, stamp in inputs:
            answers.append(self.admit(input, stamp))
            if (
                self.pending_bytes >= bounds.record_bytes
                or self.pending_blob_bytes >= bounds.blob_bytes
            ):
                break
        return answers

    # Steps, and receipts that the core owes

    def has_work(self, *, steps: bool = True) -> bool:
        """Whether ``next`` returns something."""
        ...

    @property
    def ready_cells(self) -> int:
        """Cells in the ring: they have an entry to run."""
        ...

    def ring_head(self) -> RingHead | None: ...

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        """Decide the first receipt that the core owes or, if it owes none and with ``steps``, begin
        a step of the ring's head: the call that runs it, or the fault of an entry that may not
        run. None if there is neither. Raises Damage."""
        ...

    def ran(self, ran: Ran) -> Request | Decision:
        """Continue the decision that waits for a call. That of a step ends here. Raises Damage."""
        ...

    def end_step(self, ran: Ran) -> Faulted | None:
        """End the step that waits for its call, and enter its record. Return the record if the step
        failed its instance. Raises Damage."""
        decision = self.ran(ran)
        assert isinstance(decision, Decided), "a step ends with a record"
        self.enter(decision)
        return decision.record if isinstance(decision.record, Faulted) else None

    def kept(self) -> Request | Decision:
        """Continue the decision that waits for a ``Keep``: its blobs are durable. Raises Damage."""
        ...

    # Records and frames

    def enter(self, decided: Decided) -> None:
        """Apply the last decision: fold its record, which joins the frame that is being filled."""
        ...

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        """Fold a record that was decided elsewhere, and add it with its blobs to the frame that is
        being filled: an import, a fork, or a record that a replay copies. Raises Damage."""
        ...

    def follow(self, frame: Frame) -> None:
        """Check that a stored frame follows ``tip``, and fold its records. Raises Damage."""
        ...

    @property
    def pending_records(self) -> int:
        """Records of the frame that is being filled."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes of those records."""
        ...

    @property
    def pending_blob_bytes(self) -> int:
        """Bytes of the blobs that came with those records."""
        ...

    def seal(self, salt: bytes) -> Sealed | None:
        """End the frame that is being filled; None if it has no record."""
        ...

    # Reading

    def read(self, hash: Hash, /) -> bytes:
        """Return a blob of the frame that is being filled, or else one of the host's."""
        ...

    def cell(self, id: CellId) -> CellView | None:
        """Return a cell. Raises Damage."""
        ...

    def cells_of(self, workflow: str) -> Iterator[CellView]:
        """Yield the cells of a workflow by the hash of their key. Nothing may be entered meanwhile.
        Raises Damage."""
        ...

    def writer_of(self, id: CellId) -> Workflow | None:
        """Return the workflow under which a cell came in flight; None if there is none. Raises
        Damage."""
        ...

    def takes_receipt(self, intent: Hash) -> bool:
        """Whether an intent is open, or abandoned without a receipt."""
        ...

    def progress_of(self, intent: Hash) -> IntentProgress | None:
        """Return an intent that takes a receipt, with its progress."""
        ...

    def open_intents(self, *, but: str | None = None) -> Iterator[IntentProgress]:
        """Yield the open intents in the order of opening, ``but`` those of one effect. Nothing may
        be entered meanwhile. Raises Damage."""
        ...

    def open_timers(self, after: Hash | None, count: int) -> Sequence[OpenTimer]:
        """Return the first ``count`` open timers by place (SN-16), of those whose place is greater
        than ``after``. Loads no cell, and takes as long as these timers. Raises Damage."""
        ...

    def uses(self, value: Hash) -> Iterator[str]:
        """Yield the parts of the world that need a value, in words. Reads everything. Raises
        Damage."""
        ...

    # Memory and snapshots

    @property
    def memory(self) -> KernelMemory | None:
        """The memory of a kernel that ends when it needs more than it may have; None for a kernel
        that only the process bounds (CR-37)."""
        ...

    @property
    def base(self) -> int:
        """The record after which the snapshot that idle cells are read from was taken, or 0."""
        ...

    @property
    def pins(self) -> Container[Hash]:
        """Blobs that the kernel needs although no durable record names them. Any thread may ask
        whether one is among them."""
        ...

    def spill(self, *, resting_max: int | None = None) -> None:
        """From now on, frames carry states for which memory has no room, and the host commits them
        with the frame (SN-11a). Keep at most ``resting_max`` idle cells of each workflow decoded.
        """
        ...

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        """Write a snapshot of the world at the end of a frame, and return the input that announces
        it. ``put`` gets its blobs, the document last; ``format`` is as for ``take``. Raises
        Damage."""
        ...

    def rebase(self, document: Hash) -> None:
        """Read idle cells from a durable snapshot of this world from now on (SN-13). No answer
        changes. The host has called ``spill`` before the snapshot: else cells that were removed
        since could come back. Raises Damage; the kernel continues as before then."""
        ...


@runtime_checkable
class FollowsStored(Protocol):
    """A kernel that also follows frames as they are stored."""

    def follow_stored(self, frames: Iterable[StoredFrame], followed: Callable[[int], None]) -> None:
        """As ``follow``, of many frames: meanwhile, the kernel may use more memory. ``followed`` is
        called after each of them with its last record. Raises Damage. After any exception, the
        caller drops the kernel."""
        ...


class Redecided(NamedTuple):
    """How many recorded records a kernel decided again and entered, and how many of each kind.
    ``steps`` includes ``faults``; ``fuel``, ``intents`` and ``emitted`` events are those of steps.

    ``call`` runs the step that comes next. None: the host decides the next record, if there is one.
    """

    records: int
    events: int
    receipts: int
    kernel_receipts: int
    steps: int
    faults: int
    intents: int
    emitted: int
    fuel: int
    call: Call | None


@runtime_checkable
class Redecides(Protocol):
    """A kernel that also decides recorded records again, and compares them itself (CR-5a)."""

    def redecide(self, records: Sequence[bytes], ran: Ran | None = None) -> Redecided:
        """Decide records that come next in a journal, and enter those that come out the same, byte
        for byte. With ``ran``, the result of the last ``call``, continue with the same records.
        Raises Damage while it enters one."""
        ...


class OpenKernel(Protocol):
    """Opens a kernel: ``aos.core.kernel.open_kernel``, or the function of another kernel."""

    def __call__(
        self,
        *,
        world: Hash | None = None,
        snapshot: Hash | None = None,
        read: BlobReader,
        find: Find | None = None,
        verify: Verify = is_signed,
        limits: Limits = LIMITS,
        manifest_of: ManifestOf = Effective.from_document,
        keeps: bool = False,
    ) -> KernelProtocol: ...


def decided(
    kernel: KernelProtocol,
    input: Input,
    stamp: Stamp,
    runner: Runner,
    keep: Callable[[Mapping[Hash, bytes]], None],
) -> Decision:
    """Decide an input that may ask for something: run its calls with ``runner``, and make its blobs
    durable with ``keep``. Exceptions of both pass through; nothing has changed."""
    decision = kernel.decide(input, stamp)
    while isinstance(decision, Call | Keep):
        if isinstance(decision, Call):
            decision = kernel.ran(runner.run(decision))
        else:
            keep(decision.blobs)
            decision = kernel.kept()
    return decision


def step(kernel: KernelProtocol, runner: Runner | None) -> Decided | None:
    """Do the next work of a kernel and enter it; without a ``runner`` only a receipt that the core
    owes. Return what was entered, or None if there was nothing to do. Raises as ``next``."""
    decision: Request | Decision | None = kernel.next(steps=runner is not None)
    if isinstance(decision, Call):
        assert runner is not None
        decision = kernel.ran(runner.run(decision))
    if decision is None:
        return None
    assert isinstance(decision, Decided), "a step ends with a record"
    kernel.enter(decision)
    return decision
