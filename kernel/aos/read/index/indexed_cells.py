"""A cell of the reader's state → its rows in the index (spec/index.md, IX-19, IX-21)."""

from __future__ import annotations

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.read.index.index_layout import (
    GONE,
    NS_BYTES,
    NS_MAX,
    OF_CELLS,
    OF_REASONS,
    WORD_BYTES,
    IndexTable,
    StoredCell,
    number_key,
    order_key,
)
from aos.read.index.index_tables import IndexTables
from aos.read.views.cell_selection import reasons_of


def write_cell(tables: IndexTables, number: int, state: State, id: CellId) -> None:
    """Bring the rows of a cell to what it is in a state."""
    update_cell(tables, number, state, id, tables.cell(number))


def update_cell(
    tables: IndexTables, number: int, state: State, id: CellId, previous: StoredCell
) -> None:
    """The same, for a cell whose row is known."""
    updated = _stored(tables, previous, state, state.cells.get(id))
    if updated == previous:
        return
    tables.rows.put(IndexTable.CELLS, number_key(number), updated.to_bytes())
    _write_order(tables, number, previous, updated)


def _stored(
    tables: IndexTables, previous: StoredCell, state: State, cell: Cell | None
) -> StoredCell:
    if cell is None:
        return StoredCell(GONE, 0, previous.word, previous.key)
    status = CELL_STATUSES.index(cell.status)
    reasons = tuple(map(tables.word, reasons_of(state, cell)))
    last_ns = min(cell.last_active_ns, NS_MAX)
    return StoredCell(status, last_ns, previous.word, previous.key, reasons)


def _write_order(
    tables: IndexTables, number: int, previous: StoredCell, updated: StoredCell
) -> None:
    rows, name = tables.rows, number_key(number)
    if previous.status != updated.status:
        if previous.status != GONE:
            rows.delete(IndexTable.BY_KEY, _group(previous) + order_key(previous.key))
            tables.count(OF_CELLS + _group(previous), -1)
        if updated.status != GONE:
            rows.put(IndexTable.BY_KEY, _group(updated) + order_key(updated.key), name)
            tables.count(OF_CELLS + _group(updated), 1)
    if (previous.status, previous.last_active_ns) != (updated.status, updated.last_active_ns):
        if previous.status != GONE:
            rows.delete(IndexTable.BY_ACTIVITY, _activity(previous))
        if updated.status != GONE:
            rows.put(IndexTable.BY_ACTIVITY, _activity(updated), name)
    if (previous.status, previous.reasons) != (updated.status, updated.reasons):
        for cell, change in ((previous, -1), (updated, 1)):
            for reason in cell.reasons:
                key = OF_REASONS + _group(cell) + reason.to_bytes(WORD_BYTES, "big")
                tables.count(key, change)


def _group(cell: StoredCell) -> bytes:
    return cell.word.to_bytes(WORD_BYTES, "big") + bytes([cell.status])


def _activity(cell: StoredCell) -> bytes:
    return _group(cell) + cell.last_active_ns.to_bytes(NS_BYTES, "big") + order_key(cell.key)
