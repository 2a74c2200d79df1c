"""Journal and state → the rows of the index, in slices (spec/index.md, IX-1 to IX-8).

    the cells and intents of the pruned part   if the journal was pruned
    the records after it, frame by frame       without the state; cells that they name are stale
    the stale cells                            from the state, once the index is at its record

The same code fills an index, follows with one, and reads on in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import Damage
from aos.read.index.index_head import IndexHead
from aos.read.index.index_layout import NUMBER_BYTES, IndexTable, number_key, number_of
from aos.read.index.index_rows import IndexRows
from aos.read.index.index_tables import IndexTables
from aos.read.index.indexed_cells import update_cell, write_cell
from aos.read.index.indexed_journal import IndexedJournal
from aos.read.index.indexed_records import IndexedRecords

CELLS_AT_ONCE: Final = 64
"""Cells between two looks at the time."""

IsLate = Callable[[], bool]


def is_of(head: IndexHead, journal: IndexedJournal) -> bool:
    """Whether an index continues with this journal: same world, same pruned part, and the last
    frame of the index is in it (IX-3)."""
    end = journal.head()
    if end is None or head.world != end.world or not head.is_begun or head.base != _base(journal):
        return False
    if head.at == head.base:
        return True
    if head.at > end.seq:
        return False
    frame = journal.frame_at(head.at)
    return frame is not None and (frame.header.last, frame.hash) == (head.at, head.tip)


def _base(journal: IndexedJournal) -> int:
    cut = journal.cut()
    return 0 if cut is None else cut.seq


def first_head(journal: IndexedJournal) -> IndexHead:
    """The head of an index without a row of this journal.

    Raises:
        Damage: The journal has no record.
    """
    end, cut = journal.head(), journal.cut()
    if end is None:
        raise Damage("a journal without a record has no index")
    if cut is None:
        return IndexHead(world=end.world)
    return IndexHead(world=end.world, base=cut.seq, at=cut.seq, tip=cut.frame, is_begun=False)


class PrunedPart:
    """The cells and intents that the pruned records left, in slices. Not resumed by a restart."""

    def __init__(self, journal: IndexedJournal) -> None:
        cut = journal.cut()
        assert cut is not None, "nothing was pruned"
        self._state = load(cut.document, journal.blob)
        self._remaining_cells: Iterator[CellId] = iter(self._state.cells)

    def advance(self, rows: IndexRows, head: IndexHead, is_late: IsLate) -> IndexHead:
        """Number more of the cells; after the last one, write the open intents."""
        tables = IndexTables(rows)
        while True:
            cell_ids = list(islice(self._remaining_cells, CELLS_AT_ONCE))
            for id in cell_ids:
                rows.put(IndexTable.STALE, number_key(tables.number(id)))
            if not cell_ids:
                break
            if is_late():
                return head
        records = IndexedRecords(tables, self._state.clock_ns)
        records.begin(self._state)
        tables.finish()
        return replace(head, clock_ns=records.clock_ns, is_begun=True)


def fold_records(
    rows: IndexRows, head: IndexHead, journal: IndexedJournal, state: State, is_late: IsLate
) -> IndexHead:
    """Write the rows of the records up to that of ``state``, at least one frame; at the last one
    also those of stale cells. Return the head that belongs to these rows.

    Raises:
        Damage, Pruned: The journal cannot be read. The rows must be thrown away.
    """
    last = state.next_seq - 1
    tables = IndexTables(rows)
    records = IndexedRecords(tables, head.clock_ns)
    for frame in journal.frames(head.at + 1, last) if head.at < last else ():
        if frame.header.first != head.at + 1 or frame.header.prev != head.tip:
            raise Damage(f"frame {frame.header.first} does not follow the index's record {head.at}")
        if frame.header.last > last:
            raise Damage(f"record {last} is inside of the frame of record {frame.header.first}")
        for data in frame.records:
            records.take(from_bytes(data))
        head = replace(head, at=frame.header.last, tip=frame.hash, clock_ns=records.clock_ns)
        if is_late():
            break
    if head.at == last:
        _write_cells(tables, records, state, is_late)
    else:
        for number in records.named_cells:
            rows.put(IndexTable.STALE, number_key(number))
    tables.finish()
    return head


def _write_cells(
    tables: IndexTables, records: IndexedRecords, state: State, is_late: IsLate
) -> None:
    """Write the rows of the cells that records have named, then those of stale ones."""
    rows = tables.rows
    for number, id in records.named_cells.items():
        write_cell(tables, number, state, id)
        rows.delete(IndexTable.STALE, number_key(number))
    while True:
        keys = [key for key, _ in islice(rows.scan(IndexTable.STALE, b"", None), CELLS_AT_ONCE)]
        for key in keys:
            row = tables.cell(number_of(key[:NUMBER_BYTES]))
            update_cell(tables, number_of(key), state, (tables.name(row.word), row.key), row)
            rows.delete(IndexTable.STALE, key)
        if len(keys) < CELLS_AT_ONCE or is_late():
            break


def has_stale(rows: IndexRows) -> bool:
    """Whether rows of cells are older than the index."""
    return next(rows.scan(IndexTable.STALE, b"", None), None) is not None
