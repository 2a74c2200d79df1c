"""The second kernel: a core in Rust behind ``KernelProtocol`` (spec/core.md, CR-15 to CR-19).

    kernel = open_fast_kernel(world=world, read=store.blob)

It answers as ``aos.core.kernel.Kernel``, to the byte. State is in the core alone: this object keeps
the last decision, and copies of what the core answered after the last record. It belongs to the
thread that opens it, which has a big stack and is not the main thread (``buffer``, rule 2).
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from aos.core.decide.admit import TIME_MAX
from aos.core.decide.answers import Answer, Decided, Decision
from aos.core.journal.frame import Frame, StoredFrame, Tip
from aos.core.journal.identity import ENTROPY_BYTES
from aos.core.journal.inputs import Input, SnapshotInput
from aos.core.journal.ports import BlobReader, Call, Keep, Ran, Verify
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import CellId, Faulted, Record, Stamp
from aos.core.journal.signing import is_signed
from aos.core.kernel_protocol import (
    FrameBounds,
    KernelFigures,
    KernelMemory,
    KernelProtocol,
    Redecided,
    Request,
    RingHead,
)
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.core.state.cells import RESTING_MAX
from aos.core.state.eras import KEPT_MAX, ManifestOf
from aos.core.state.intent_progress import IntentProgress, OpenTimer
from aos.core.state.submissions import Find
from aos.fastcore.buffer import (
    MEMORY_BYTES_MAX,
    MEMORY_VARIABLE,
    CoreCode,
    memory_bytes_of,
    shipped_code,
)
from aos.fastcore.core_answers import (
    CellCopy,
    CoreStatus,
    cell_of,
    figures_of,
    progress_of,
    ring_head_of,
    status_of,
    tip_of,
)
from aos.fastcore.decide_core import (
    DecideCore,
    Next,
    RecordDecided,
    read_ahead,
    reference_answers,
)
from aos.fastcore.errors import CoreDefect
from aos.fastcore.fold_core import (
    RESERVE_BYTES,
    CoreAnswer,
    CoreOperation,
    IntentBytes,
    SealedBytes,
    cell_bytes,
    data_bytes,
)
from aos.manifest.effective import Effective, Workflow
from aos.sandbox.caps import MIB
from aos.values.digests import HASH_BYTES, Hash, content_hash

T = TypeVar("T")

_NO_BOUNDS: Final = FrameBounds(2**64 - 1, 2**64 - 1)

PAGE: Final = 256
"""How many cells, intents or uses the core returns at a time."""

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


def open_fast_kernel(
    *,
    world: Hash | None = None,
    snapshot: Hash | None = None,
    read: BlobReader,
    find: Find | None = None,
    verify: Verify = is_signed,
    limits: Limits = LIMITS,
    manifest_of: ManifestOf = Effective.from_document,
    keeps: bool = False,
    code: CoreCode | None = None,
    memory_bytes: int | None = None,
) -> KernelProtocol:
    """Return a kernel, as ``aos.core.kernel.open_kernel`` does with the same arguments. ``code`` is
    the compiled core (default: ``shipped_code``). Its core may have ``memory_bytes``, or as many as
    ``AOS_CORE_MEMORY_MIB`` says.

    Raises:
        Damage: The snapshot cannot be read, or the core in this installation was altered.
        CoreFull: The snapshot does not fit into the memory.
    """
    manifests = CoreManifests(read, manifest_of)
    core = DecideCore(
        code or shipped_code(),
        read=read,
        find=find or _find_none,
        ask=reference_answers(verify, manifests.keep),
        limits=limits,
        memory_bytes=memory_bytes_of() if memory_bytes is None else memory_bytes,
    )
    judges = manifest_of is not Effective.from_document
    if snapshot is None:
        assert world is not None
        core.open(world, judges=judges, keeps=keeps)
    else:
        core.load(snapshot, judges=judges, keeps=keeps)
    return FastKernel(core, read=read, manifests=manifests)


def _find_none(_: str) -> None:
    return None


def _check_stamp(stamp: Stamp) -> None:
    assert 0 <= stamp.ns <= TIME_MAX, f"a stamp of {stamp.ns} ns"
    assert len(stamp.entropy) == ENTROPY_BYTES, f"a stamp with {len(stamp.entropy)} bytes"


class CoreManifests:
    """The manifests of a core's world, the last ones decoded."""

    def __init__(self, read: BlobReader, manifest_of: ManifestOf) -> None:
        self._read = read
        self._manifest_of = manifest_of
        self._decoded: OrderedDict[Hash, Effective] = OrderedDict()

    def keep(self, document: bytes) -> Effective:
        """Decode a document, and keep it for ``get``."""
        effective = self._manifest_of(document)
        self._decoded[effective.hash] = effective
        while len(self._decoded) > KEPT_MAX:
            self._decoded.popitem(last=False)
        return effective

    def get(self, hash: Hash, pending_blob: Callable[[Hash], bytes | None]) -> Effective:
        """Return a manifest, whose document may be pending. Raises Damage."""
        effective = self._decoded.get(hash)
        if effective is not None:
            return effective
        document = pending_blob(hash)
        return self.keep(self._read(hash) if document is None else document)


class SealedEnd(NamedTuple):
    """The bytes that a core used when it had sealed a frame, and the bytes of its figures."""

    used_bytes: int
    figures: bytes


class CorePins:
    """The pinned blobs of a core. Any thread may ask whether one is among them."""

    def __init__(self) -> None:
        self.hashes: set[Hash] = set()
        """Only the owner of the kernel changes it, or puts another set in its place."""

    def __contains__(self, hash: object) -> bool:
        return hash in self.hashes


class FastKernel(KernelProtocol):
    """One world in a core; see ``KernelProtocol`` for the methods, ``open_fast_kernel`` for the
    arguments.

    A trap of the core is a ``CoreDefect``, which names the operation and the next record. After it,
    and after a failed ``enter``, ``append`` or ``follow``, each method that needs the core raises
    ``CoreUnusable``. Nothing that was acknowledged is lost, and another kernel continues from the
    journal.
    """

    def __init__(self, core: DecideCore, *, read: BlobReader, manifests: CoreManifests) -> None:
        self._core = core
        self._host_read = read
        self._manifests = manifests
        self._status: CoreStatus | None = None
        """The core's answer since the last record; the same for ``_tip``."""
        self._tip: Tip | None = None
        self._sealed_end: SealedEnd | None = None
        """The core's answer to the last seal, if nothing changed since."""
        self._decided: Decided | None = None
        """The last decision, which the core enters without getting its bytes again."""
        self._request: Request | None = None
        """The request of the decision that waits for its answer."""
        self._ahead: CoreAnswer | None = None
        """The result of ``next``, which the core began when it ended the step before."""
        mib, highest = (core.allowed_bytes + RESERVE_BYTES) // MIB, MEMORY_BYTES_MAX // MIB
        self._memory_setting = f"{MEMORY_VARIABLE}, which is {mib} and at most {highest}"
        self._resting_max = RESTING_MAX
        self._base = 0
        self._pins = CorePins()
        self._next_seq = status_of(CoreAnswer(core.ask(CoreOperation.STATUS))).next_seq
        """That of the core, without a question to it: the words of a defect need it."""
        self._look_at_pins()

    def _do(self, function: Callable[[], T]) -> T:
        """Call the core. A defect of it names the record that was to come."""
        try:
            return function()
        except CoreDefect as defect:
            self._status = self._tip = None
            raise self._named(defect) from defect

    def _named(self, defect: CoreDefect) -> CoreDefect:
        return type(defect)(f"{defect} (before record {self._next_seq:,})")

    def _ask(self, operation: CoreOperation, request: bytes = b"") -> CoreAnswer:
        return CoreAnswer(self._do(lambda: self._core.ask(operation, request)))

    def _change(self, function: Callable[[], T]) -> T:
        """Call the core with something that may change its world."""
        # As ``_do``, inline: this is called for every record.
        self._decided = self._request = self._ahead = self._sealed_end = None
        try:
            return function()
        except BaseException as problem:
            self._status = self._tip = None
            if isinstance(problem, CoreDefect):
                raise self._named(problem) from problem
            raise

    def _changed(self, answer: CoreAnswer) -> None:
        """Keep the status after a change."""
        self._status = status_of(answer)
        self._next_seq = self._status.next_seq

    def _changed_to(self, next_seq: int) -> None:
        """The core did not say its status after a change."""
        self._status = self._tip = None
        self._next_seq = next_seq

    # The world after the last record

    @property
    def _now(self) -> CoreStatus:
        if self._status is None:
            self._changed(self._ask(CoreOperation.STATUS))
            assert self._status is not None
        return self._status

    @property
    def tip(self) -> Tip:
        if self._tip is None:
            self._tip = tip_of(self._ask(CoreOperation.TIP))
        return self._tip

    @property
    def next_seq(self) -> int:
        return self._now.next_seq

    @property
    def manifest(self) -> Effective | None:
        manifest = self._now.manifest
        return None if manifest is None else self._manifest(manifest)

    def figures(self) -> KernelFigures:
        now, end = self._now, self._sealed_end
        return figures_of(
            self._ask(CoreOperation.FIGURES) if end is None else CoreAnswer(end.figures),
            manifest=self.manifest,
            manifest_seq=now.manifest_seq,
            ready_cells=now.ready_cells,
        )

    def manifests(self) -> Sequence[Effective]:
        return [self._manifest(manifest) for _, manifest in self._now.eras()]

    def _manifest(self, hash: Hash) -> Effective:
        return self._manifests.get(hash, self._pending_blob)

    # Inputs

    def admit(self, input: Input, stamp: Stamp) -> Answer:
        return self.admit_all(((input, stamp),), _NO_BOUNDS)[0]

    def admit_all(
        self, inputs: Sequence[tuple[Input, Stamp]], bounds: FrameBounds
    ) -> Sequence[Answer]:
        for _, stamp in inputs:
            _check_stamp(stamp)
        admitted = self._change(lambda: self._core.admit_all(inputs, bounds))
        self._changed(admitted.status)
        return admitted.answers

    def decide(self, input: Input, stamp: Stamp) -> Request | Decision:
        """Decide as the protocol says.

        Raises:
            ValueError: A field is none that a message or record can hold, and no rule refuses the
                input before (CR-19). Nothing has changed.
        """
        _check_stamp(stamp)
        decision = self._continued(lambda: self._core.decide(input, stamp))
        assert decision is not None, "an input is decided"
        return decision

    # Steps, and receipts that the core owes

    def has_work(self, *, steps: bool = True) -> bool:
        now = self._now
        return bool(now.owed) or (steps and bool(now.ready_cells))

    @property
    def ready_cells(self) -> int:
        return self._now.ready_cells

    def ring_head(self) -> RingHead | None:
        return self._ask(CoreOperation.RING_HEAD).option(ring_head_of)

    def next(self, *, steps: bool = True) -> Call | Decided | None:
        ahead = self._ahead
        if not self.has_work(steps=steps):
            self._forget_decision()
            return None
        decided = read_ahead(ahead) if steps and ahead is not None else None
        if decided is None:
            decision = self._continued(lambda: self._core.next(steps=steps))
        else:
            self._forget_decision()
            decision = self._remember(decided[0])
        assert decision is None or isinstance(decision, Call | Decided)
        return decision

    def ran(self, ran: Ran) -> Request | Decision:
        assert isinstance(self._request, Call), "no decision waits for an answer"
        decision = self._continued(lambda: self._core.ran(ran))
        assert decision is not None, "a call is followed by something"
        if isinstance(decision, Decided) and isinstance(decision.record, Faulted):
            decision = Decided(
                record=decision.record, blobs=decision.blobs, engine_text=ran.engine_text
            )
            self._decided = decision
        return decision

    def end_step(self, ran: Ran) -> Faulted | None:
        assert isinstance(self._request, Call), "no decision waits for an answer"
        failed, answer = self._change(lambda: self._core.end_step(ran))
        self._changed(answer)
        self._ahead = answer
        if failed is None:
            return None
        record = from_bytes(failed)
        assert isinstance(record, Faulted)
        return record

    def kept(self) -> Request | Decision:
        assert isinstance(self._request, Keep), "no decision waits for an answer"
        decision = self._continued(self._core.resume)
        assert decision is not None, "blobs that were kept are followed by something"
        return decision

    def _continued(self, function: Callable[[], Next]) -> Request | Decision | None:
        """Forget the decision before, and begin or continue one."""
        self._forget_decision()
        return self._remember(self._do(function))

    def _remember(self, answer: Next) -> Request | Decision | None:
        """Keep a decision, or its request, for the call that follows."""
        if isinstance(answer, RecordDecided):
            self._decided = Decided(record=from_bytes(answer.record), blobs=answer.blobs)
            return self._decided
        if isinstance(answer, Call | Keep):
            self._request = answer
        return answer

    def redecide(self, records: Sequence[bytes], ran: Ran | None = None) -> Redecided:
        """As ``Redecides``."""
        assert ran is None or isinstance(self._request, Call), "no decision waits for an answer"
        redecided = self._change(lambda: self._core.redecide(records, ran))
        self._changed_to(self._next_seq + redecided.records)
        self._request = redecided.call
        return redecided

    def _forget_decision(self) -> None:
        """Another decision or a change begins."""
        self._decided = self._request = self._ahead = None

    # Records and frames

    def enter(self, decided: Decided) -> None:
        if decided is self._decided:
            self._changed(self._change(self._core.enter))
        else:
            self.append(decided.record, decided.blobs)

    def append(self, record: Record, blobs: Mapping[Hash, bytes]) -> None:
        data = to_bytes(record)
        self._change(lambda: self._core.append(data, list(blobs.values())))
        self._changed_to(self._next_seq + 1)

    def follow(self, frame: Frame) -> None:
        assert not self.pending_records, "a frame is being filled"
        data = frame.to_bytes()
        self._change(lambda: self._core.fold_frame(data))
        self._changed_to(frame.header.last + 1)

    def follow_stored(self, frames: Iterable[StoredFrame], followed: Callable[[int], None]) -> None:
        assert not self.pending_records, "a frame is being filled"
        self._do(lambda: self._core.keep_leaves(keeps=True))
        for frame in frames:
            self._change(partial(self._core.fold_frame, frame.data))
            self._changed_to(frame.last + 1)
            followed(frame.last)
        self._do(lambda: self._core.keep_leaves(keeps=False))

    @property
    def pending_records(self) -> int:
        return self._now.pending_records

    @property
    def pending_bytes(self) -> int:
        return self._now.pending_bytes

    @property
    def pending_blob_bytes(self) -> int:
        return self._now.pending_blob_bytes

    def seal(self, salt: bytes) -> Sealed | None:
        if not self.pending_records:
            return None
        answer = self._change(lambda: self._core.seal_and_rest(salt))
        assert answer is not None, "records are pending"
        sealed, end = answer
        self._tip = tip_of(end)
        self._changed(end)
        self._sealed_end = SealedEnd(end.u64(), end.tail())
        self._pins.hashes.update(sealed.new_pins)
        return self._sealed(sealed)

    def _sealed(self, sealed: SealedBytes) -> Sealed:
        return Sealed(
            frame=sealed.frame,
            tip=self.tip,
            blobs=sealed.blobs,
            opened_intents=tuple(map(self._intent, sealed.opened_intents)),
            settled=sealed.settled,
            abandoned=sealed.abandoned,
            submissions=sealed.submissions,
            canceled=sealed.canceled,
            erased=sealed.erased,
            snapshots=sealed.snapshots,
            replaced=sealed.replaced,
        )

    # Reading

    def read(self, hash: Hash, /) -> bytes:
        pending_blob = self._pending_blob(hash)
        return self._host_read(hash) if pending_blob is None else pending_blob

    def _pending_blob(self, hash: Hash) -> bytes | None:
        if not self.pending_records or len(hash) != HASH_BYTES:
            return None
        return self._ask(CoreOperation.PENDING_BLOB, hash).option(CoreAnswer.data)

    def cell(self, id: CellId) -> CellCopy | None:
        return self._ask(CoreOperation.CELL, cell_bytes(id)).option(cell_of)

    def cells_of(self, workflow: str) -> Iterator[CellCopy]:
        head, tail = data_bytes(workflow.encode()), _U64.pack(PAGE)
        cursor = _U32.pack(0)
        while True:
            cells = self._ask(CoreOperation.CELLS_OF, head + cursor + tail).list(cell_of)
            yield from cells
            if len(cells) < PAGE:
                return
            cursor = _U32.pack(1) + cells[-1].key_hash

    def writer_of(self, id: CellId) -> Workflow | None:
        manifest = self._ask(CoreOperation.WRITER_OF, cell_bytes(id)).option(CoreAnswer.hash)
        return None if manifest is None else self._manifest(manifest).workflows.get(id[0])

    def takes_receipt(self, intent: Hash) -> bool:
        # An input may name an intent by anything.
        return len(intent) == HASH_BYTES and (
            self._ask(CoreOperation.PROGRESS_OF, intent).u32() == 1
        )

    def progress_of(self, intent: Hash) -> IntentProgress | None:
        if len(intent) != HASH_BYTES:
            return None
        return self._ask(CoreOperation.PROGRESS_OF, intent).option(self._progress)

    def open_intents(self, *, but: str | None = None) -> Iterator[IntentProgress]:
        skipped = 0
        effect = _U32.pack(0) if but is None else _U32.pack(1) + data_bytes(but.encode())
        while True:
            request = _U64.pack(skipped) + _U64.pack(PAGE) + effect
            page = self._ask(CoreOperation.OPEN_INTENTS, request).list(self._progress)
            yield from page
            if len(page) < PAGE:
                return
            skipped += PAGE

    def open_timers(self, after: Hash | None, count: int) -> Sequence[OpenTimer]:
        place = _U32.pack(0) if after is None else _U32.pack(1) + after
        answer = self._ask(CoreOperation.OPEN_TIMERS, place + _U64.pack(count))
        return answer.list(lambda row: OpenTimer(row.hash(), self._progress(row)))

    def _progress(self, answer: CoreAnswer) -> IntentProgress:
        return progress_of(answer, self._intent)

    def _intent(self, intent: IntentBytes) -> OpenIntent:
        effective = self._manifest(intent.manifest)
        (
            hash, cell, workflow_hash, seq, index, opened_ns, manifest, effect, params, params_hash,
            key, idempotency_key, issuer_ref,
        ) = intent  # fmt: skip
        return OpenIntent(
            hash, cell, workflow_hash, seq, index, opened_ns, manifest, effective.effects[effect],
            effective.executors, params, params_hash, key, idempotency_key, issuer_ref,
        )  # fmt: skip

    def uses(self, value: Hash) -> Iterator[str]:
        skipped = 0
        while len(value) == HASH_BYTES:
            request = value + _U64.pack(skipped) + _U64.pack(PAGE)
            page = self._ask(CoreOperation.USES, request).list(CoreAnswer.text)
            yield from page
            if len(page) < PAGE:
                return
            skipped += PAGE

    # Memory and snapshots

    @property
    def memory(self) -> KernelMemory:
        end = self._sealed_end
        used = self._do(self._core.memory)[0] if end is None else end.used_bytes
        return KernelMemory(used, self._core.allowed_bytes, self._memory_setting)

    @property
    def base(self) -> int:
        return self._base

    @property
    def pins(self) -> Container[Hash]:
        return self._pins

    def _look_at_pins(self) -> None:
        answer = self._ask(CoreOperation.PINS)
        self._base = answer.u64()
        self._pins.hashes = set(answer.list(CoreAnswer.hash))

    def spill(self, *, resting_max: int | None = None) -> None:
        if resting_max is not None:
            self._resting_max = max(resting_max, 1)
        self._ahead = None
        self._do(lambda: self._core.keep(self._resting_max, spills=True))

    def snapshot(self, put: Callable[[bytes], Hash], *, format: int | None = None) -> SnapshotInput:
        self._ahead = None
        taken = self._do(lambda: self._core.take(put, format))
        return SnapshotInput(
            at=taken.at,
            frame=taken.frame,
            document=content_hash(taken.document),
            size=len(taken.document),
        )

    def rebase(self, document: Hash) -> None:
        self._ahead = None
        self._do(lambda: self._core.rebase(document))
        self._look_at_pins()
