"""Fold a world's journal by the second kernel: the operations of ``operations.rs`` as methods.

Requests and answers are numbers, little-endian, and canonical bytes; ``operations.rs`` describes
each of them.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from aos.core.journal.frame import Frame, Header, frame_of_bytes
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Ref, Slot
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Settled, Submitted
from aos.core.state.state import Mark
from aos.fastcore.buffer import (
    MEMORY_BYTES_MAX,
    Ask,
    CoreCode,
    CoreInstance,
    Find,
    Put,
    never_asked,
    never_put,
)
from aos.fastcore.errors import CoreDefect, CoreUnusable
from aos.values.digests import HASH_BYTES, Hash, content_hash

T = TypeVar("T")

RESERVE_BYTES: Final = 64 * 1024 * 1024
"""Bytes that an instance may have above those that its core allocates: its stack, and gaps."""

LEAF_BYTES_KEPT: Final = 64 * 1024 * 1024
"""Bytes of the leaves of each index that a fold of many records keeps in memory: most cells of a
leaf change, and reading it again for each of them would take most of the time."""

_SEED_BYTES: Final = 16
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_INTENT: Final = struct.Struct("<32s32sQQQ32s32s10I")
_FRAME: Final = struct.Struct("<32s32sQ32s32s32s32s")
_PLACE: Final = struct.Struct("<II")
_SETTLED: Final = struct.Struct("<32sQ32s")
_MARK: Final = struct.Struct("<QQ32s")
_HASHES: Final = struct.Struct("<32s")
_PAIR: Final = struct.Struct("<32s32s")
_REF: Final = struct.Struct("<32sQ")
_KEY_BYTES: Final = 2
_INIT: Final = struct.Struct("<12Q")


class CoreOperation(IntEnum):
    """Numbers of ``operations.rs``."""

    INIT = 0
    OPEN = 1
    LOAD = 2
    FOLD_FRAME = 3
    APPEND = 4
    SEAL = 5
    TAKE = 6
    REBASE = 7
    HEAD = 8
    MEMORY = 9
    KEEP = 10
    DECIDE = 11
    NEXT = 12
    RAN = 13
    ENTER = 14
    TIP = 15
    STATUS = 16
    FIGURES = 17
    RING_HEAD = 18
    CELL = 19
    CELLS_OF = 20
    WRITER_OF = 21
    PROGRESS_OF = 22
    OPEN_INTENTS = 23
    USES = 24
    PENDING_BLOB = 25
    PINS = 26
    ADMIT = 27
    END_STEP = 28
    KEPT = 29
    EXPORT = 30
    KEEP_LEAVES = 31
    REDECIDE = 32
    OPEN_TIMERS = 33


_NAMES: Final = tuple([operation.name.lower() for operation in CoreOperation])

_OPENING: Final = (CoreOperation.INIT, CoreOperation.OPEN, CoreOperation.LOAD)


class IntentBytes(NamedTuple):
    """An intent as ``aos.core.state.cell.OpenIntent`` has it, with the name of its effect, which
    the ``manifest`` defines."""

    intent: Hash
    cell: CellId
    workflow_hash: Hash
    seq: int
    index: int  # type: ignore[assignment]  # hides a tuple's method
    opened_ns: int
    manifest: Hash
    effect: str
    params: Slot
    params_hash: Hash
    key: str | bytes | None
    idempotency_key: str
    issuer_ref: str | None


class SealedBytes(NamedTuple):
    """A sealed frame and its rows, as ``aos.core.pending.Sealed`` has them. ``new_pins`` are the
    blobs that the core needs from now on although no snapshot names them."""

    frame: Frame
    blobs: Mapping[Hash, bytes]
    replaced: Mapping[Hash, Hash]
    opened_intents: tuple[IntentBytes, ...]
    settled: tuple[Settled, ...]
    abandoned: tuple[Hash, ...]
    canceled: tuple[Hash, ...]
    erased: tuple[Hash, ...]
    submissions: tuple[Submitted, ...]
    snapshots: tuple[Mark, ...]
    new_pins: tuple[Hash, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBytes:
    """A snapshot after record ``at``, which ends the frame ``frame``, and its document."""

    at: int
    frame: Hash
    document: bytes


class FoldCore:
    """One world in a second kernel. The thread that makes it owns it (``buffer``).

    ``read`` must find every blob of every frame that it folded or sealed, durable or not; ``find``
    the record of a submission id that left the state. Methods raise what these raise, and Damage as
    the reference does. If one failed while it changed the world, the state may be half changed
    (CR-12): each later one but ``open`` and ``load`` raises CoreUnusable.
    """

    def __init__(
        self,
        code: CoreCode,
        *,
        read: BlobReader,
        find: Find = lambda _: None,
        ask: Ask = never_asked,
        limits: Limits = LIMITS,
        memory_bytes: int = MEMORY_BYTES_MAX,
    ) -> None:
        self._core = CoreInstance(code, read=read, find=find, ask=ask, memory_bytes=memory_bytes)
        self._unusable: str | None = None
        numbers = (
            limits.deliveries, limits.blockers, limits.delta_bytes, limits.spill_bytes,
            limits.slice_cells, limits.kept_bytes, limits.chunk, limits.chunks_held,
            limits.page_bytes, limits.page_items, limits.snapshot_format,
        )  # fmt: skip
        bound = max(0, memory_bytes - RESERVE_BYTES)
        self.allowed_bytes: Final = bound
        """The most bytes that the core may allocate."""
        seed = secrets.token_bytes(_SEED_BYTES)
        self.ask(CoreOperation.INIT, seed + _INIT.pack(bound, *numbers))

    def open(self, world: Hash, *, judges: bool = False, keeps: bool = False) -> None:
        """Begin with the state before the first frame of a world.

        ``judges``: whether the core asks its host about every manifest of the journal, which may be
        forged. ``keeps``: whether the host makes blobs of a migration durable as they come.
        """
        self.ask(CoreOperation.OPEN, world + _U32.pack(judges) + _U32.pack(keeps))

    def load(self, document: Hash, *, judges: bool = False, keeps: bool = False) -> None:
        """Begin with the state that a snapshot has. The arguments are those of ``open``."""
        self.ask(CoreOperation.LOAD, document + _U32.pack(judges) + _U32.pack(keeps))

    def keep(self, cells: int, *, spills: bool) -> None:
        """Keep so many idle cells of each workflow decoded. ``spills``: whether states may leave
        memory with a sealed frame."""
        self.ask(CoreOperation.KEEP, _U64.pack(cells) + _U32.pack(spills))

    def keep_leaves(self, *, keeps: bool) -> None:
        """Keep leaves of each index in memory from now on, or drop them (CR-37a)."""
        size = min(LEAF_BYTES_KEPT, self.allowed_bytes // 8) if keeps else 0
        self.ask(CoreOperation.KEEP_LEAVES, _U64.pack(size))

    def fold_frame(self, frame: bytes) -> None:
        """Check that a stored frame follows, and fold its records."""
        self.ask(CoreOperation.FOLD_FRAME, frame)

    def append(self, record: bytes, blobs: Sequence[bytes] = ()) -> None:
        """Fold a record, in canonical bytes, into the frame that is being filled."""
        request = b"".join([_U32.pack(len(blobs)), *map(data_bytes, blobs), record])
        self.ask(CoreOperation.APPEND, request)

    def seal(self, salt: bytes) -> SealedBytes | None:
        """Make one frame of all records since the last seal; None when there are none."""
        sealed = self.seal_and_rest(salt)
        return None if sealed is None else sealed[0]

    def seal_and_rest(self, salt: bytes) -> tuple[SealedBytes, CoreAnswer] | None:
        """As ``seal``, with the rest of the answer: tip, status, used bytes and figures."""
        answer = CoreAnswer(self.ask(CoreOperation.SEAL, salt))
        return (_sealed(answer), answer) if answer.unread_bytes else None

    def take(self, put: Put, format: int | None = None) -> TakenBytes:
        """Take a snapshot at the end of a frame, in a format or in that of the limits.

        ``put`` gets every blob that the last snapshot does not have, some that it has, and the
        document last. It gets each as soon as the core has made it, so only one of them is in
        memory. It must not call the core; the snapshot ends with what it raises."""
        document = b""

        def take_blob(data: bytes) -> None:
            nonlocal document
            put(data)
            document = data

        self._core.put = take_blob
        try:
            answer = CoreAnswer(self.ask(CoreOperation.TAKE, _U64.pack(format or 0)))
        finally:
            self._core.put = never_put
        at, frame, document_hash = answer.u64(), answer.hash(), answer.hash()
        assert content_hash(document) == document_hash, "the core puts the document last"
        return TakenBytes(at=at, frame=frame, document=document)

    def export(self) -> CoreAnswer:
        """Write the state at the end of a frame; ``exported_state`` reads it."""
        return CoreAnswer(self.ask(CoreOperation.EXPORT))

    def rebase(self, document: Hash) -> None:
        """Continue from a durable snapshot of this or an earlier state."""
        self.ask(CoreOperation.REBASE, document)

    def head(self) -> bytes:
        """The journal's end as the bytes of a head with an empty signature."""
        return self.ask(CoreOperation.HEAD)

    def memory(self) -> tuple[int, int]:
        """(bytes that the core has allocated, bytes of its instance's memory)."""
        answer = CoreAnswer(self.ask(CoreOperation.MEMORY))
        return answer.u64(), answer.u64()

    def close(self) -> None:
        """Free the memory. Nothing may be asked afterwards."""
        self._core.close()

    def ask(self, operation: CoreOperation, request: bytes = b"") -> bytes:
        """Do an operation and return its answer."""
        name = _NAMES[operation]
        if self._unusable is not None and operation in _OPENING:
            self._unusable = None
        if self._unusable is not None:
            raise CoreUnusable(
                f"operation {name} of the second kernel: its world is half changed, because "
                f"operation {self._unusable} failed (open another kernel)"
            )
        try:
            return self._core.call(name, operation, request)
        except CoreDefect:
            raise  # the instance itself refuses what follows
        except BaseException:
            if self._core.has_closed:
                self._unusable = name
                self._core.has_closed = False
            raise


def data_bytes(data: bytes) -> bytes:
    """``data`` of a request: its length, then itself."""
    return _U32.pack(len(data)) + data


def cell_bytes(id: CellId) -> bytes:
    """The id of a cell in a request."""
    return data_bytes(id[0].encode()) + data_bytes(id[1])


def _sealed(answer: CoreAnswer) -> SealedBytes:
    return SealedBytes(
        frame=_frame(answer),
        blobs={answer.hash(): answer.data() for _ in range(answer.u32())},
        replaced=dict(answer.rows(_PAIR)),
        opened_intents=answer.list(intent_of),
        settled=tuple(map(Settled._make, answer.rows(_SETTLED))),
        abandoned=answer.hashes(),
        canceled=answer.hashes(),
        erased=answer.hashes(),
        submissions=answer.list(lambda row: Submitted(row.text(), row.u64(), row.hash())),
        snapshots=tuple([Mark(*row) for row in answer.rows(_MARK)]),
        new_pins=answer.hashes(),
    )


def _frame(answer: CoreAnswer) -> Frame:
    """Read a frame (``put_frame`` of ``operations.rs``)."""
    hash, world, first, prev, root, log_root, salt = answer.unpack(_FRAME)
    data = answer.data()
    records = tuple([data[start:end] for start, end in answer.rows(_PLACE)])
    header = Header(
        world=world, first=first, last=first + len(records) - 1, prev=prev, root=root,
        log_root=log_root,
    )  # fmt: skip
    return frame_of_bytes(header, hash, salt, records, data)


def intent_of(answer: CoreAnswer) -> IntentBytes:
    """Read an intent (``put_intent`` of ``reading.rs``)."""
    (
        intent, workflow_hash, seq, index, opened_ns, manifest, params_hash, *sizes
    ) = answer.unpack(_INTENT)  # fmt: skip
    workflow, cell_key, effect, idempotency_key, params_kind, params, kind, key, issued, issuer = (
        sizes
    )
    parts = answer.parts(workflow, cell_key, effect, idempotency_key, params, key, issuer)
    name, cell, effect_name, idempotency_name, param_bytes, key_bytes, issuer_ref = parts
    slot: Slot = Ref(*_REF.unpack(param_bytes)) if params_kind else param_bytes
    request_key: str | bytes | None = None
    if kind:
        request_key = key_bytes if kind == _KEY_BYTES else key_bytes.decode()
    return IntentBytes(
        intent, (name.decode(), cell), workflow_hash, seq, index, opened_ns, manifest,
        effect_name.decode(), slot, params_hash, request_key, idempotency_name.decode(),
        issuer_ref.decode() if issued else None,
    )  # fmt: skip


class CoreAnswer:
    """Reads the parts of an answer one after another."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def unread_bytes(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._at

    def tail(self) -> bytes:
        """All bytes that were not read."""
        return self._data[self._at :]

    def begins_with(self, number: int) -> bool:
        """Whether the next part is this ``u32``, which is skipped then."""
        is_next: bool = _U32.unpack_from(self._data, self._at)[0] == number
        self._at += 4 * is_next
        return is_next

    # Each of these is called several times for a record, so none calls another.

    def u32(self) -> int:
        at = self._at
        self._at = at + 4
        number: int
        (number,) = _U32.unpack_from(self._data, at)
        return number

    def u64(self) -> int:
        at = self._at
        self._at = at + 8
        number: int
        (number,) = _U64.unpack_from(self._data, at)
        return number

    def take(self, size: int) -> bytes:
        at = self._at
        end = self._at = at + size
        return self._data[at:end]

    def parts(self, *sizes: int) -> Sequence[bytes]:
        """Parts of these sizes, one after another."""
        data, at = self._data, self._at
        parts = []
        for size in sizes:
            end = at + size
            parts.append(data[at:end])
            at = end
        self._at = at
        return parts

    def unpack(self, numbers: struct.Struct) -> tuple[Any, ...]:
        at = self._at
        self._at = at + numbers.size
        return numbers.unpack_from(self._data, at)

    def hash(self) -> Hash:
        at = self._at
        end = self._at = at + HASH_BYTES
        return Hash(self._data[at:end])

    def data(self) -> bytes:
        data, at = self._data, self._at
        end = self._at = at + 4 + _U32.unpack_from(data, at)[0]
        return data[at + 4 : end]

    def text(self) -> str:
        data, at = self._data, self._at
        end = self._at = at + 4 + _U32.unpack_from(data, at)[0]
        return data[at + 4 : end].decode()

    def cell_id(self) -> CellId:
        return self.text(), self.data()

    def slot(self) -> Slot:
        return Ref(self.hash(), self.u64()) if self.u32() else self.data()

    def rows(self, row: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """A list of rows of one size."""
        return row.iter_unpack(self.take(self.u32() * row.size))

    def hashes(self) -> tuple[Hash, ...]:
        """A list of hashes."""
        return tuple([Hash(hash) for (hash,) in self.rows(_HASHES)])

    def list(self, read: Callable[[CoreAnswer], T]) -> tuple[T, ...]:
        return tuple([read(self) for _ in range(self.u32())])

    def option(self, read: Callable[[CoreAnswer], T]) -> T | None:
        return read(self) if self.u32() else None
