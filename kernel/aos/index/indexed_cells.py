"""A cell of the reader's state → its rows in the index (spec/index.md, IX-19, IX-21)."""

from __future__ import annotations

from aos.audit.views.cell_selection import why
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.index.index_layout import (
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
from aos.index.index_tables import IndexTables


def write_cell(tables: IndexTables, number: int, state: State, id: CellId) -> None:
    """Bring the rows of a cell to what it is in a state."""
    update_cell(tables, number, state, id, tables.cell(number))


def update_cell(
    tables: IndexTables, number: int, state: State, id: CellId, before: StoredCell
) -> None:
    """The same, for a cell whose row is known."""
    after = _stored(tables, before, state, state.cells.get(id))
    if after == before:
        return
    tables.rows.put(IndexTable.CELLS, number_key(number), after.to_bytes())
    _write_order(tables, number, before, after)


def _stored(tables: IndexTables, before: StoredCell, state: State, cell: Cell | None) -> StoredCell:
    if cell is None:
        return StoredCell(GONE, 0, before.word, before.key)
    status = CELL_STATUSES.index(cell.status)
    reasons = tuple(map(tables.word, why(state, cell)))
    last_ns = min(cell.last_active_ns, NS_MAX)
    return StoredCell(status, last_ns, before.word, before.key, reasons)


def _write_order(tables: IndexTables, number: int, before: StoredCell, after: StoredCell) -> None:
    rows, name = tables.rows, number_key(number)
    if before.status != after.status:
        if before.status != GONE:
            rows.delete(IndexTable.BY_KEY, _group(before) + order_key(before.key))
            tables.count(OF_CELLS + _group(before), -1)
        if after.status != GONE:
            rows.put(IndexTable.BY_KEY, _group(after) + order_key(after.key), name)
            tables.count(OF_CELLS + _group(after), 1)
    if (before.status, before.last_active_ns) != (after.status, after.last_active_ns):
        if before.status != GONE:
            rows.delete(IndexTable.BY_ACTIVITY, _activity(before))
        if after.status != GONE:
            rows.put(IndexTable.BY_ACTIVITY, _activity(after), name)
    if (before.status, before.reasons) != (after.status, after.reasons):
        for cell, change in ((before, -1), (after, 1)):
            for reason in cell.reasons:
                key = OF_REASONS + _group(cell) + reason.to_bytes(WORD_BYTES, "big")
                tables.count(key, change)


def _group(cell: StoredCell) -> bytes:
    return cell.word.to_bytes(WORD_BYTES, "big") + bytes([cell.status])


def _activity(cell: StoredCell) -> bytes:
    return _group(cell) + cell.last_active_ns.to_bytes(NS_BYTES, "big") + order_key(cell.key)
