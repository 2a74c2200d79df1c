"""Find records of a journal: by sequence number, or by a name, with an index or a search of the
bytes (spec/audit.md, A-44); and list the values that a record refers to by content hash
(spec/journal.md, J-15).

Without an index, the bytes of all records are searched, and only the matches are decoded. Records
are canonical, so the bytes of a name (a taken entry, an intent, a cell) appear unchanged in every
record that has it. A byte search costs a fraction of decoding. Each match is decoded and checked
again, because a value may contain the same bytes by chance.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, TypeVar

from aos.core.journal.frame import Frame
from aos.core.journal.identity import idempotency_key
from aos.core.journal.inputs import END, REMOVE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control, EntryId, Intent, Record, Ref, Start, Step
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.names import WORLD_SEND
from aos.read.lens.ports import Journal, RecordIndex, first_kept
from aos.read.lens.words import one_line
from aos.values.cbor import encode
from aos.values.digests import HASH_BYTES, Hash, parse_hash
from aos.values.errors import ValueProblem

FRAMES_KEPT: Final = 16

START_WITHIN: Final = 10_000
"""Records before a given one among which a view looks for a ``start`` record."""

V = TypeVar("V")
W = TypeVar("W")

_ENTRY: Final = encode("entry") + b"\x82"
_INTENT: Final = encode("intent") + encode(bytes(HASH_BYTES))[:2]
_START: Final = encode("kind") + encode(Start.KIND)


class Records:
    """Reads records of a journal by sequence number. A frame holds many records, so the last few
    frames are cached."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._frames: OrderedDict[int, Frame] = OrderedDict()
        self._start: tuple[int, Start | None] = (0, None)
        """The last ``start`` record up to a record, and that record."""

    def at(self, seq: int) -> Record:
        """Return a record. Raises ``BadUsage`` if there is no such record, ``Damage`` if it
        cannot be read."""
        return from_bytes(self.data_at(seq))

    def data_at(self, seq: int) -> bytes:
        """Return the bytes of a record. Raises the same as ``at``."""
        frame = self.frame_of(seq)
        return frame.records[seq - frame.header.first]

    def frame_of(self, seq: int) -> Frame:
        """Return the frame that holds a record. Raises the same as ``at``."""
        for first, frame in reversed(self._frames.items()):
            if first <= seq <= frame.header.last:
                self._frames.move_to_end(first)
                return frame
        journal_frame = self._journal.frame_at(seq)
        if journal_frame is None:
            raise BadUsage(
                "there is no such record",
                location=f"record {seq}",
                hint="aos inspect world shows the last one",
            )
        self._frames[journal_frame.header.first] = journal_frame
        if len(self._frames) > FRAMES_KEPT:
            self._frames.popitem(last=False)
        return journal_frame

    def last_start(self, last: int) -> Start | None:
        """Return the last ``start`` record up to record ``last``; None if it is not among the
        ``START_WITHIN`` records there. A later call reads only records that an earlier one did not.

        Raises:
            Damage: A record after it cannot be read.
        """
        first = max(1, last - START_WITHIN + 1)
        read_to, start = self._start if self._start[0] <= last else (0, None)
        start = last_start(self._journal, last, first=max(first, read_to + 1)) or start
        self._start = (last, start)
        return start if start is not None and start.seq >= first else None


def last_start(journal: Journal, last: int, *, first: int = 1) -> Start | None:
    """Return the last ``start`` record among records ``first`` to ``last``. Pruned records are
    skipped.

    Raises:
        Damage: A record after it cannot be read.
    """
    seq, first = last, max(first, first_kept(journal))
    while seq >= first:
        frame = journal.frame_at(seq)
        assert frame is not None, "the journal reaches so far"
        kept = frame.records[max(first - frame.header.first, 0) : seq - frame.header.first + 1]
        for data in reversed(kept):
            if _START in data:
                record = from_bytes(data)
                if isinstance(record, Start):
                    return record
        seq = frame.header.first - 1
    return None


def records_naming(
    journal: Journal,
    cell: CellId,
    *,
    first: int = 1,
    last: int,
    index: RecordIndex | None = None,
) -> Iterator[Record]:
    """Yield the records from ``first`` to ``last`` that name a cell, and perhaps a few others.
    Pruned records are skipped."""
    first = max(first, first_kept(journal))
    if index is not None:
        yield from map(Records(journal).at, index.naming(cell, first=first, last=last))
        return
    needle = encode([*cell])
    for frame in journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if needle in data and first <= seq <= last:
                yield from_bytes(data)


def sent_under(journal: Journal, state: State, key: str) -> EntryId | None:
    """Find the intent to send an event to another world that has this idempotency key: the step
    that opened it, and its index there. None if there is none, or if it was pruned."""
    first, last = first_kept(journal), state.next_seq - 1
    try:
        row = journal.intent(parse_hash(key))  # without a key of its own (K-21)
    except ValueProblem:
        return None
    if row is not None:
        return (row.opened_seq, row.index) if first <= row.opened_seq <= last else None
    needle = encode(WORLD_SEND)
    for frame in journal.frames(first, last):
        for data in frame.records:
            record = from_bytes(data) if needle in data else None
            if not isinstance(record, Step):
                continue
            for index, intent in enumerate(record.intents):
                if intent.effect == WORLD_SEND and _has_key(intent, key, record.cell, state.world):
                    return record.seq, index
    return None


def _has_key(intent: Intent, key: str, cell: CellId, world: Hash) -> bool:
    return intent.key is not None and any(
        key
        == idempotency_key(
            world=world, cell=cell, effect=intent.effect, key=intent.key, scope=scope
        )
        for scope in ("cell", "world")
    )


def records_after(
    journal: Journal,
    first: int,
    last: int,
    entries: dict[EntryId, V],
    intents: dict[Hash, W],
    *,
    index: RecordIndex | None = None,
) -> Iterator[Record]:
    """Yield the records from ``first`` to ``last`` that take one of ``entries`` or are about one
    of ``intents``, and perhaps a few others. The caller may add to both after a record that was
    yielded: later records are looked up in them. Pruned records are skipped."""
    first = max(first, first_kept(journal))
    if index is not None:
        seqs = _following(index, entries, intents)
        yield from map(Records(journal).at, (seq for seq in seqs if first <= seq <= last))
        return
    for frame in journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if first <= seq <= last and (
                _takes_entry(data, entries) or _names_intent(data, intents)
            ):
                yield from_bytes(data)


def _following(
    index: RecordIndex, entries: dict[EntryId, V], intents: dict[Hash, W]
) -> Iterator[int]:
    """Yield the records that follow from entries and intents, in their order."""
    visited: set[EntryId | Hash] = set()
    ahead: list[int] = []
    last = 0
    while True:
        # A dict has what was added last at its end.
        for entry in takewhile(lambda candidate: candidate not in visited, reversed(entries)):
            visited.add(entry)
            ahead.extend(index.taking(entry))
        for intent in takewhile(lambda candidate: candidate not in visited, reversed(intents)):
            visited.add(intent)
            ahead.extend(index.records_about(intent))
        heapq.heapify(ahead)
        while ahead and ahead[0] == last:
            heapq.heappop(ahead)
        if not ahead:
            return
        last = heapq.heappop(ahead)
        yield last


def _takes_entry(data: bytes, entries: dict[EntryId, V]) -> bool:
    at = data.find(_ENTRY)
    while at >= 0:
        seq, end = _nat_at(data, at + len(_ENTRY))
        index, _ = _nat_at(data, end)
        if (seq, index) in entries:
            return True
        at = data.find(_ENTRY, at + 1)
    return False


def _nat_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the natural number at ``at`` and the place where it ends; (-1, at) for anything
    else."""
    if at >= len(data):
        return -1, at
    initial = data[at]
    if initial < 24:
        return initial, at + 1
    if initial > 27:
        return -1, at
    end = at + 1 + (1 << initial - 24)
    return int.from_bytes(data[at + 1 : end], "big"), end


def _names_intent(data: bytes, intents: dict[Hash, W]) -> bool:
    at = data.find(_INTENT)
    while at >= 0:
        start = at + len(_INTENT)
        if Hash(data[start : start + HASH_BYTES]) in intents:
            return True
        at = data.find(_INTENT, at + 1)
    return False


def ending(
    journal: Journal, cell: CellId, *, first: int, last: int, index: RecordIndex | None = None
) -> Control | None:
    """Return the first command among records ``first`` to ``last`` with which an operator ended or
    removed the cell (spec/kernel.md, K-109): it took all mail and all open intents that the cell
    had then."""
    for record in records_naming(journal, cell, first=first, last=last, index=index):
        if isinstance(record, Control) and record.cell == cell and record.action in (END, REMOVE):
            return record
    return None


def ending_text(command: Control) -> str:
    """Return who ended the instance, by which record, and why."""
    action_text = "removed it" if command.action == REMOVE else f"ended it as {command.status}"
    text = f"{command.principal} {action_text}, by record {command.seq}"
    return text if command.why is None else f"{text}: {one_line(command.why)}"


def references(record: Record) -> Iterator[tuple[str, Ref]]:
    """Yield each reference in a record with its place in it: ``state``, ``events[0].value``."""
    yield from _in_fields(record, "")


def _in_fields(holder: Any, under: str) -> Iterator[tuple[str, Ref]]:
    for field in dataclasses.fields(holder):
        yield from _in(getattr(holder, field.name), under + field.name)


def _in(value: object, path: str) -> Iterator[tuple[str, Ref]]:
    if isinstance(value, Ref):
        yield path, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _in(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value):
        yield from _in_fields(value, f"{path}.")
