"""The second kernel of a test world, called from any thread (spec/testing.md, T-8, T-8a).

A second kernel belongs to one thread, which is not the main thread and has a big stack. Tests run
on the main thread. So each call of the protocol runs on the thread that runs modules, which all
worlds of a process share. Code that makes several calls runs on that thread as a whole.

What a test reads of a world as data is the state of the reference, which ``ReferenceCopy`` folds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TypeVar

from aos.core.decide.answers import Decided, Decision
from aos.core.journal.frame import Frame, Tip
from aos.core.journal.inputs import Input, SnapshotInput
from aos.core.journal.ports import Call, Ran
from aos.core.journal.records import CellId, Manifest, Record, Stamp
from aos.core.kernel_protocol import (
    CellView,
    KernelFigures,
    KernelMemory,
    KernelProtocol,
    OpenKernel,
    Request,
    RingHead,
)
from aos.core.pending import Sealed
from aos.core.state.intent_progress import IntentProgress, OpenTimer
from aos.host.folder.restore import restore_kernel
from aos.manifest.effective import Effective, Workflow
from aos.store.memory_store import MemoryStore
from aos.testing.problems import WorldProblem
from aos.testing.sources import SHARED
from aos.values.digests import Hash

T = TypeVar("T")


class ReferenceCopy:
    """The reference, with the world of another kernel after its last record.

    It follows the frames of the store, and the records that are in no frame yet, only when a test
    reads it: a world that is never read is never folded here.
    """

    def __init__(self, store: MemoryStore, world: Hash) -> None:
        self._store = store
        self._world = world
        self._kernel: KernelProtocol | None = None
        self._pending: list[tuple[Record, Mapping[Hash, bytes]]] = []

    def entered(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        """Note a record that the other kernel has folded."""
        self._pending.append((record, blobs))

    def sealed(self, salt: bytes, tip: Tip) -> None:
        """End the frame of the records that were noted; ``tip`` is the other kernel's."""
        if self._kernel is not None and self._kernel.pending_records:
            self._append(self._kernel)
            self._kernel.seal(salt)
            assert self._kernel.tip == tip, f"the cores disagree in the frame of record {tip.seq}"
        self._pending.clear()

    def caught_up(self) -> KernelProtocol:
        kernel = self._kernel
        if kernel is None:
            kernel = self._kernel = restore_kernel(self._store, self._world)
        elif not kernel.pending_records:
            # A frame that the copy has begun is ended by ``sealed``.
            for frame in self._store.frames(kernel.next_seq):
                kernel.follow(frame)
        self._append(kernel)
        return kernel

    def _append(self, kernel: KernelProtocol) -> None:
        for record, blobs in self._pending[kernel.pending_records :]:
            kernel.append(record, blobs)


class ThreadedKernel(KernelProtocol):
    """The kernel of the world in ``store``, whose methods any thread of this process may call.

    Raises:
        WorldProblem: By every method when that thread is not there any more (``SHARED.thread``).
    """

    def __init__(self, store: MemoryStore, world: Hash, opens: OpenKernel) -> None:
        self._thread = SHARED.thread
        self._copy = ReferenceCopy(store, world)
        self._tip: Tip | None = None
        """The kernel's answer since the last frame."""
        self._manifest: Effective | None = None
        """The kernel's answer since the last manifest record."""
        self._kernel = self._call(lambda: restore_kernel(store, world, opens=opens))

    def _call(self, function: Callable[[], T]) -> T:
        if SHARED.thread != self._thread:
            raise WorldProblem(
                "this world runs on the second kernel, whose thread is not there any more: a test "
                'was interrupted, or the process is forked (create it there, or use core="python")'
            )
        return SHARED.on_module_thread(function)

    def reference(self) -> KernelProtocol:
        """The reference with this world after its last record, for what a test reads as data."""
        return self._copy.caught_up()

    # The world after the last record

    @property
    def tip(self) -> Tip:
        if self._tip is None:
            self._tip = self._call(lambda: self._kernel.tip)
        return self._tip

    @property
    def next_seq(self) -> int:
        return self._call(lambda: self._kernel.next_seq)

    @property
    def manifest(self) -> Effective | None:
        if self._manifest is None:
            self._manifest = self._call(lambda: self._kernel.manifest)
        return self._manifest

    def figures(self) -> KernelFigures:
        return self._call(self._kernel.figures)

    def manifests(self) -> Sequence[Effective]:
        return self._call(self._kernel.manifests)

    # Inputs

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        return self._call(lambda: self._kernel.decide(input, stamp))

    # Steps, and receipts that the core owes

    def has_work(self, *, steps: bool = True) -> bool:
        return self._call(lambda: self._kernel.has_work(steps=steps))

    @property
    def ready_cells(self) -> int:
        return self._call(lambda: self._kernel.ready_cells)

    def ring_head(self) -> RingHead | None:
        return self._call(self._kernel.ring_head)

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        return self._call(lambda: self._kernel.next(steps=steps))

    def ran(self, ran: Ran) -> Request | Decision:
        return self._call(lambda: self._kernel.ran(ran))

    def kept(self) -> Request | Decision:
        return self._call(self._kernel.kept)

    # Records and frames

    def enter(self, decided: Decided) -> None:
        self._call(lambda: self._kernel.enter(decided))
        self._entered(decided.record, decided.blobs)

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        self._call(lambda: self._kernel.append(record, blobs))
        self._entered(record, blobs)

    def _entered(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        self._copy.entered(record, blobs)
        if isinstance(record, Manifest):
            self._manifest = None

    def follow(self, frame: Frame) -> None:
        self._tip = self._manifest = None
        self._call(lambda: self._kernel.follow(frame))

    @property
    def pending_records(self) -> int:
        return self._call(lambda: self._kernel.pending_records)

    @property
    def pending_bytes(self) -> int:
        return self._call(lambda: self._kernel.pending_bytes)

    @property
    def pending_blob_bytes(self) -> int:
        return self._call(lambda: self._kernel.pending_blob_bytes)

    def seal(self, salt: bytes) -> Sealed | None:
        sealed = self._call(lambda: self._kernel.seal(salt))
        if sealed is not None:
            self._tip = sealed.tip
            self._copy.sealed(salt, sealed.tip)
        return sealed

    # Reading

    def read(self, hash: Hash, /) -> bytes:
        return self._call(lambda: self._kernel.read(hash))

    def cell(self, id: CellId) -> CellView | None:
        return self._call(lambda: self._kernel.cell(id))

    def cells_of(self, workflow: str) -> Iterator[CellView]:
        return iter(self._call(lambda: list(self._kernel.cells_of(workflow))))

    def writer_of(self, id: CellId) -> Workflow | None:
        return self._call(lambda: self._kernel.writer_of(id))

    def takes_receipt(self, intent: Hash) -> bool:
        return self._call(lambda: self._kernel.takes_receipt(intent))

    def progress_of(self, intent: Hash) -> IntentProgress | None:
        return self._call(lambda: self._kernel.progress_of(intent))

    def open_intents(self, *, but: str | None = None) -> Iterator[IntentProgress]:
        return iter(self._call(lambda: list(self._kernel.open_intents(but=but))))

    def open_timers(self, after: Hash | None, count: int) -> Sequence[OpenTimer]:
        return self._call(lambda: self._kernel.open_timers(after, count))

    def uses(self, value: Hash) -> Iterator[str]:
        return iter(self._call(lambda: list(self._kernel.uses(value))))

    # Memory and snapshots

    @property
    def base(self) -> int:
        return self._call(lambda: self._kernel.base)

    @property
    def memory(self) -> KernelMemory | None:
        return self._call(lambda: self._kernel.memory)

    @property
    def pins(self) -> Container[Hash]:
        return self._kernel.pins

    def spill(self, *, resting_max: int | None = None) -> None:
        self._call(lambda: self._kernel.spill(resting_max=resting_max))

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        return self._call(lambda: self._kernel.snapshot(put, format=format))

    def rebase(self, document: Hash) -> None:
        self._call(lambda: self._kernel.rebase(document))
