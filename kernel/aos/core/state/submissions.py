"""The dedup window: recent events by submission id (spec/state.md, SN-20 to SN-23).

The newest events are in memory, the others in the chunks of a snapshot. A chunk has the events of
``Limits.chunk`` sequences, oldest first; a derived row of the store tells which chunk has an id.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.limits import LIMITS, Limits
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem


@dataclass(frozen=True, slots=True)
class Submission:
    """An event that was submitted under an id: its record, its payload hash and the window time."""

    seq: int
    payload: Hash
    at_ns: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The window's events of the ``Limits.chunk`` sequences from ``number * Limits.chunk`` on."""

    number: int
    hash: Hash
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window of another kernel: ``in_chunks`` events that only ``chunks`` have, then those that
    ``newest`` returns, the oldest first. The event of record ``evicted`` was forgotten last."""

    evicted: int
    in_chunks: int
    chunks: tuple[Chunk, ...]
    newest: Callable[[], OrderedDict[str, Submission]]


Find: TypeAlias = Callable[[str], int | None]
"""Returns the sequence of the newest durable event under an id, or None."""

_Row: TypeAlias = tuple[str, Submission]


class Submissions:
    """Submission ids, oldest first; an id that is submitted again becomes the newest.

    ``chunks`` are those of the snapshot that the world continues from; ``find`` looks an id up in
    the store.
    """

    __slots__ = (
        "_base",
        "_chunk",
        "_chunks",
        "_chunks_held",
        "_evicted",
        "_find",
        "_front",
        "_read",
        "_recent",
        "_rows_by_chunk",
    )

    def __init__(
        self,
        chunks: Iterable[Chunk] = (),
        *,
        read: BlobReader | None = None,
        find: Find | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._chunk = limits.chunk
        self._chunks_held = limits.chunks_held
        self._chunks = deque(chunks)
        self._read = read
        self._find = find
        self._base = sum(chunk.count for chunk in self._chunks)
        self._recent: OrderedDict[str, Submission] = OrderedDict()
        self._front: deque[_Row] | None = None
        self._rows_by_chunk: OrderedDict[Hash, tuple[_Row, ...]] = OrderedDict()
        self._evicted = 0

    def read_with(self, read: BlobReader) -> None:
        """Read chunks with ``read`` from now on."""
        self._read = read

    def __len__(self) -> int:
        return self._base + len(self._recent)

    def items(self) -> Iterator[tuple[str, Submission]]:
        """All ids with their events, oldest first.

        Raises:
            Damage: A chunk cannot be read.
        """
        if self._base:
            yield from tuple(self._front_rows())
            for chunk in tuple(self._chunks)[1:]:
                yield from self._rows(chunk)
        yield from self._recent.items()

    def __iter__(self) -> Iterator[str]:
        for name, _ in self.items():  # noqa: PERF102  # there are no keys()
            yield name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Submissions):
            return NotImplemented
        return len(self) == len(other) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]  # it changes

    def get(self, submission_id: str) -> Submission | None:
        """Return the newest event under an id, or None.

        Raises:
            Damage: A chunk cannot be read.
        """
        submission = self._recent.get(submission_id)
        if submission is not None or not self._base or self._find is None:
            return submission
        seq = self._find(submission_id)
        if seq is None or seq <= self._evicted:
            return None
        chunk = next(
            (candidate for candidate in self._chunks if candidate.number == seq // self._chunk),
            None,
        )
        if chunk is None:
            return None
        for name, row in self._rows(chunk):
            if row.seq == seq and name == submission_id:
                return row
        return None

    def __getitem__(self, submission_id: str) -> Submission:
        submission = self.get(submission_id)
        if submission is None:
            raise KeyError(submission_id)
        return submission

    def remember(
        self, submission_id: str, event: Submission, *, oldest_ns: int, count_max: int
    ) -> None:
        """Add the newest event. Forget all older than ``oldest_ns``, and all but ``count_max``."""
        while len(self) and self._oldest().at_ns < oldest_ns:
            self._forget_oldest()
        self._recent[submission_id] = event
        self._recent.move_to_end(submission_id)
        while len(self) > count_max:
            self._forget_oldest()

    def _oldest(self) -> Submission:
        if self._base:
            return self._front_rows()[0][1]
        return next(iter(self._recent.values()))

    def _forget_oldest(self) -> None:
        if not self._base:
            self._evicted = self._recent.popitem(last=False)[1].seq
            return
        front = self._front_rows()
        self._evicted = front.popleft()[1].seq
        self._base -= 1
        if not front:
            self._chunks.popleft()
            self._front = None

    def _front_rows(self) -> deque[_Row]:
        while not self._front:
            rows = self._rows(self._chunks[0])
            self._front = deque([row for row in rows if row[1].seq > self._evicted])
            if not self._front:
                self._chunks.popleft()
        return self._front

    def _rows(self, chunk: Chunk) -> tuple[_Row, ...]:
        rows = self._rows_by_chunk.get(chunk.hash)
        if rows is None:
            assert self._read is not None, "chunks, and nothing to read them with"
            rows = tuple(_read_chunk(self._read(chunk.hash), chunk, self._chunk))
            self._rows_by_chunk[chunk.hash] = rows
            while len(self._rows_by_chunk) > self._chunks_held:
                self._rows_by_chunk.popitem(last=False)
        return rows

    # Snapshots

    def chunks(self, put: Callable[[bytes], Hash]) -> tuple[Chunk, ...]:
        """All chunks of the current window; ``put`` receives the bytes of the new ones."""
        if self._base:
            self._front_rows()
        chunks = list(self._chunks)
        rows: list[_Row] = []
        if chunks and self._front is not None and len(self._front) < chunks[0].count:
            chunks[0] = _chunk(chunks[0].number, tuple(self._front), put)
        for name, event in self._recent.items():
            if rows and rows[0][1].seq // self._chunk != event.seq // self._chunk:
                self._add(chunks, rows, put)
                rows = []
            rows.append((name, event))
        if rows:
            self._add(chunks, rows, put)
        return tuple(chunks)

    def _add(self, chunks: list[Chunk], rows: list[_Row], put: Callable[[bytes], Hash]) -> None:
        number = rows[0][1].seq // self._chunk
        earlier_rows: tuple[_Row, ...] = ()
        if chunks and chunks[-1].number == number:
            is_front = len(chunks) == 1 and self._front is not None
            last = chunks.pop()
            earlier_rows = tuple(self._front or ()) if is_front else self._rows(last)
        chunks.append(_chunk(number, (*earlier_rows, *rows), put))

    def rebase(self, chunks: Iterable[Chunk], at: int) -> None:
        """Continue from ``chunks``, which are the window after record ``at``."""
        total = len(self)
        newer = list(takewhile(lambda row: row[1].seq > at, reversed(self._recent.items())))
        self._recent = OrderedDict(reversed(newer))
        self._base = total - len(self._recent)
        self._front = None
        first = (self._evicted + 1) // self._chunk
        window_chunks = [chunk for chunk in chunks if chunk.number >= first]
        # All their events may have been forgotten since.
        self._chunks = deque(window_chunks if self._base else [])


class ExportedSubmissions(Submissions):
    """The window of another kernel. Few readers need it, so its newest events are decoded late."""

    __slots__ = ("_decoded", "_newest")

    def __init__(
        self, window: Window, *, read: BlobReader, find: Find | None, limits: Limits
    ) -> None:
        super().__init__(window.chunks, read=read, find=find, limits=limits)
        self._evicted, self._base = window.evicted, window.in_chunks
        self._newest = window.newest
        self._decoded: OrderedDict[str, Submission] | None = None

    @property
    def _recent(self) -> OrderedDict[str, Submission]:
        if self._decoded is None:
            self._decoded = self._newest()
        return self._decoded

    @_recent.setter
    def _recent(self, rows: OrderedDict[str, Submission]) -> None:
        self._decoded = rows


def _chunk(number: int, rows: tuple[_Row, ...], put: Callable[[bytes], Hash]) -> Chunk:
    row_values: list[Value] = [[row.seq, name, row.payload, row.at_ns] for name, row in rows]
    return Chunk(number, put(encode(row_values)), len(rows))


def _read_chunk(data: bytes, chunk: Chunk, size: int) -> Iterator[_Row]:
    try:
        rows = decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"a chunk of the dedup window is not canonical CBOR: {problem}") from problem
    if not isinstance(rows, list) or len(rows) != chunk.count:
        raise Damage(f"chunk {chunk.number} of the dedup window: expected {chunk.count} events")
    previous_seq = max(chunk.number * size - 1, 0)
    for row in rows:
        match row:
            case [seq, str(name), bytes(payload), at_ns] if (
                is_nat(seq)
                and previous_seq < seq < (chunk.number + 1) * size
                and len(payload) == HASH_BYTES
                and is_nat(at_ns)
            ):
                previous_seq = seq
                yield name, Submission(seq, Hash(payload), at_ns)
            case _:
                raise Damage(f"chunk {chunk.number} of the dedup window holds what is no event")
