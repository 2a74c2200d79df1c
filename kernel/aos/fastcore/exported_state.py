"""Read the state that a core exports, for code that reads a world as data (spec/core.md, CR-38).

The operation is ``EXPORT`` of ``operations.rs``; ``export.rs`` describes the bytes. Many cells may
have changed, and most readers ask for few of them: a cell is decoded when it is read.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Iterator, MutableMapping
from typing import Final

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import TERMINAL
from aos.core.snapshot.load import ExportedShelf, ExportedState
from aos.core.state.cells import Packed
from aos.core.state.entry import Entry
from aos.core.state.submissions import Chunk, Submission, Window
from aos.fastcore.fold_core import CoreAnswer
from aos.values.digests import HASH_BYTES, Hash

_COUNT_BYTES: Final = 16
_CHUNK: Final = struct.Struct(f"<Q{HASH_BYTES}sQ")
_EVENT: Final = struct.Struct(f"<Q{HASH_BYTES}sQ")
_SIZES: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct("<I")
_SIZE_BYTES: Final = _SIZES.size // 2


def exported_state(answer: CoreAnswer) -> ExportedState:
    """Read the answer of ``EXPORT``."""
    at = answer.u64()
    blobs = [(answer.hash(), answer.data()) for _ in range(answer.u32())]
    window = _window(answer)
    return ExportedState(
        document=blobs[-1][0],
        blobs=dict(blobs),
        at=at,
        window=window,
        open_intents=Counter({answer.text(): answer.u64() for _ in range(answer.u32())}),
        shelves={
            (workflow := answer.text()): _shelf(workflow, answer) for _ in range(answer.u32())
        },
        active={answer.cell_id(): _active(answer) for _ in range(answer.u32())},
    )


def _window(answer: CoreAnswer) -> Window:
    evicted, in_chunks = answer.u64(), answer.u64()
    chunks = []
    for _ in range(answer.u32()):
        number, hash, count = answer.unpack(_CHUNK)
        chunks.append(Chunk(number, Hash(hash), count))
    count, rows = answer.u64(), answer.data()

    def newest() -> OrderedDict[str, Submission]:
        row_answer = CoreAnswer(rows)
        events: OrderedDict[str, Submission] = OrderedDict()
        for _ in range(count):
            seq, payload, at_ns = row_answer.unpack(_EVENT)
            events[row_answer.text()] = Submission(seq, Hash(payload), at_ns)
        return events

    return Window(evicted=evicted, in_chunks=in_chunks, chunks=tuple(chunks), newest=newest)


def _shelf(workflow: str, answer: CoreAnswer) -> ExportedShelf:
    since = answer.u64()
    root, base_count = answer.option(CoreAnswer.hash), answer.u64()
    count, *declared = [_count(answer) for _ in range(1 + len(TERMINAL))]
    resting_waiting, undeclared_waiting = _count(answer), _count(answer)
    ended = set(answer.list(CoreAnswer.hash))
    changed = ChangedCells(workflow, answer.data())
    return ExportedShelf(
        since=since,
        root=root,
        base_count=base_count,
        count=count,
        declared=Counter(dict(zip(TERMINAL, declared, strict=True))),
        resting_waiting=resting_waiting,
        undeclared_waiting=undeclared_waiting,
        ended=ended,
        changed=changed,
        places=changed.places(),
    )


def _count(answer: CoreAnswer) -> int:
    return int.from_bytes(answer.take(_COUNT_BYTES), "little", signed=True)


def _active(answer: CoreAnswer) -> tuple[int, bytes | None]:
    return answer.u64(), answer.option(CoreAnswer.data)


def _work(answer: CoreAnswer) -> tuple[bool, bytes]:
    return answer.u32() == 1, answer.data()


class ChangedCells(MutableMapping[CellId, Packed]):
    """The cells at rest of a workflow that changed since the base, as ``Shelf.delta``.

    ``rows`` are the exported ones. They are looked through when the first cell is asked for, and
    each is decoded when it is.
    """

    def __init__(self, workflow: str, rows: bytes) -> None:
        self._workflow = workflow
        self._rows = rows
        self._cells_read: OrderedDict[CellId, Packed | int] | None = None
        """Each cell, or the offset in ``rows`` behind its key."""

    @property
    def _cells(self) -> OrderedDict[CellId, Packed | int]:
        if self._cells_read is None:
            self._cells_read = OrderedDict(self._offsets())
        return self._cells_read

    def _offsets(self) -> Iterator[tuple[CellId, int]]:
        rows, workflow, at = self._rows, self._workflow, 0
        while at < len(rows):
            row_size, key_size = _SIZES.unpack_from(rows, at)
            key_at = at + _SIZES.size
            yield (workflow, rows[key_at : key_at + key_size]), key_at + key_size
            at += _SIZE_BYTES + row_size

    def places(self) -> dict[Hash, CellId]:
        """The cells of the open intents, without decoding one."""
        places: dict[Hash, CellId] = {}
        for id, offset in self._offsets():
            (count,) = _COUNT.unpack_from(self._rows, offset)
            if count:
                intents = CoreAnswer(self._rows, offset).list(CoreAnswer.hash)
                places.update(dict.fromkeys(intents, id))
        return places

    def _packed(self, offset: int) -> Packed:
        answer = CoreAnswer(self._rows, offset)
        waits = answer.list(CoreAnswer.hash)
        changed = answer.u64()
        entry = answer.option(CoreAnswer.data)
        state, keys = answer.option(CoreAnswer.data), answer.option(CoreAnswer.data)
        work = answer.option(_work)
        return Packed(
            changed,
            None if entry is None else Entry(entry),
            state,
            keys,
            None if work is None else work[1],
            is_spilled=work is not None and work[0],
            waits=tuple(waits),
        )

    def __getitem__(self, id: CellId) -> Packed:
        cell = self._cells[id]
        if isinstance(cell, Packed):
            return cell
        packed = self._cells[id] = self._packed(cell)
        return packed

    def __setitem__(self, id: CellId, packed: Packed) -> None:
        self._cells[id] = packed

    def __delitem__(self, id: CellId) -> None:
        del self._cells[id]

    def __iter__(self) -> Iterator[CellId]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, id: object) -> bool:
        return id in self._cells
