"""Journal and state → the rows of the index, in slices (spec/index.md, IX-1 to IX-9).

    the cells of the state         numbered in its order; if they are interrupted, begun again
    the records, frame by frame    without the state; cells that they name since then are stale
    the orders of lists            sorted once, after the last record
    then, with each slice          more records, the rows of stale cells, values of more cells

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
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.errors import Damage
from aos.read.index.index_file import IndexChange, IndexHead
from aos.read.index.index_schema import OF_LISTS, OF_LOOKUPS
from aos.read.index.indexed_cells import IndexedValues, columns_of, write_cells
from aos.read.index.indexed_records import IndexedRecords, IndexTables
from aos.read.lens.ports import Journal
from aos.read.views.view import View

CELLS_AT_ONCE: Final = 64
"""Cells between two looks at the time."""

IsLate = Callable[[], bool]


def is_of(head: IndexHead, journal: Journal) -> bool:
    """Whether an index continues with this journal: same world, same pruned part, and the last
    frame of the index is in it (IX-3)."""
    end = journal.head()
    if end is None or head.world != end.world or head.base != _base(journal):
        return False
    if head.at == head.base:
        return True
    if head.at > end.seq:
        return False
    frame = journal.frame_at(head.at)
    return frame is not None and (frame.header.last, frame.hash) == (head.at, head.tip)


def _base(journal: Journal) -> int:
    cut = journal.cut()
    return 0 if cut is None else cut.seq


def first_head(journal: Journal) -> IndexHead:
    """The head of an index without a row of this journal.

    Raises:
        Damage: The journal has no record.
    """
    end, cut = journal.head(), journal.cut()
    if end is None:
        raise Damage("a journal without a record has no index")
    if cut is None:
        return IndexHead(world=end.world)
    return IndexHead(world=end.world, base=cut.seq, at=cut.seq, tip=cut.frame)


class NumberedCells:
    """Numbers the cells of a state, in slices, and writes their rows. The state must stay as it
    is."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.at = state.next_seq - 1
        self.count = 0
        self._remaining: Iterator[Cell] = iter(state.cells.values())

    def is_of(self, state: State) -> bool:
        """Whether this is the state whose cells are numbered."""
        return self.state is state and self.at == state.next_seq - 1

    def advance(self, tables: IndexTables, journal: Journal, is_late: IsLate) -> IndexHead | None:
        """Number more of the cells; return the head that belongs to the last one, else None."""
        change = tables.change
        while cells := list(islice(self._remaining, CELLS_AT_ONCE)):
            change.write(
                "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        self.count + position, tables.name(cell.id[0]), cell.id[1],
                        *columns_of(tables, self.state, cell),
                    )
                    for position, cell in enumerate(cells, 1)
                ],
            )  # fmt: skip
            self.count += len(cells)
            if is_late():
                return None
        change.execute(f"CREATE {OF_LOOKUPS['cells_by_name'].format(prefix='', table='')}")
        change.execute(
            "INSERT INTO cell_counts SELECT workflow, status, reasons, COUNT(*) FROM cells "
            "GROUP BY workflow, status, reasons"
        )
        tables.last_number = self.count
        return self._with_pruned_part(tables, journal)

    def _with_pruned_part(self, tables: IndexTables, journal: Journal) -> IndexHead:
        """Write what the pruned records left; return the head."""
        head, cut = tables.change.head, journal.cut()
        if cut is not None:
            state = load(cut.document, journal.blob)
            records = IndexedRecords(tables, state.clock_ns)
            records.begin(state)
            records.finish()
            head = replace(head, clock_ns=records.clock_ns)
        return replace(head, cells_at=self.at)


def fold_records(
    tables: IndexTables,
    values: IndexedValues | None,
    journal: Journal,
    state: State,
    is_late: IsLate,
) -> tuple[IndexHead, IndexedRecords]:
    """Write the rows of the records up to that of ``state``, at least one frame; at the last one
    also those of stale cells. Return the head that belongs to these rows, and the records.

    Raises:
        Damage, Pruned: The journal cannot be read. The rows must be thrown away.
    """
    head, last = tables.change.head, state.next_seq - 1
    cells_at = head.cells_at
    assert cells_at is not None, "the cells come first"
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
    records.finish()
    tables.flush_cells()
    named = records.named_cells if head.at > cells_at else {}
    if head.at == last:
        view = View(state, journal)
        write_cells(tables, view, values, named.items())
        _write_stale(tables, view, values, named, is_late)
    elif named:
        tables.change.write(
            "INSERT OR IGNORE INTO stale VALUES (?)", [(number,) for number in named]
        )
    tables.finish()
    return head, records


def _write_stale(
    tables: IndexTables,
    view: View,
    values: IndexedValues | None,
    written: dict[int, CellId],
    is_late: IsLate,
) -> None:
    """Write the rows of stale cells, of which some are ``written`` already."""
    change, is_above = tables.change, bool(tables.above)
    while True:
        rows = change.execute(
            "SELECT number, name, key FROM main.stale JOIN main.cells USING (number) "
            "JOIN main.names ON names.id = workflow LIMIT ?",
            (-1 if is_above else CELLS_AT_ONCE,),
        ).fetchall()
        stale = [(number, (name, key)) for number, name, key in rows if number not in written]
        write_cells(tables, view, values, stale)
        if is_above or not rows:
            break
        change.write("DELETE FROM stale WHERE number = ?", [row[:1] for row in rows])
        if is_late():
            break


def has_stale(change: IndexChange) -> bool:
    """Whether rows of cells are older than the index."""
    return change.execute("SELECT 1 FROM main.stale LIMIT 1").fetchone() is not None


def sort_lists(change: IndexChange) -> None:
    """Build the tables that sort cells and intents for lists."""
    for table in OF_LISTS.values():
        change.execute(f"CREATE {table.format(prefix='', table='')}")
