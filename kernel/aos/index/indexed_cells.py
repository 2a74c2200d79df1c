"""A cell of the reader's state → its rows in the index (spec/index.md, IX-19 to IX-21)."""

from __future__ import annotations

from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.index.index_layout import (
    BY_FAULT,
    BY_RECORD,
    GONE,
    NS_BYTES,
    OF_CELLS,
    OF_FAULTS,
    WORD_BYTES,
    IndexTable,
    StoredCell,
    StoredFault,
    message_hash,
    number_key,
    order_key,
    record_key,
)
from aos.index.index_tables import IndexTables
from aos.index.indexed_records import NS_MAX


def write_cell(tables: IndexTables, number: int, cell: Cell | None) -> None:
    """Bring the rows of a cell to its state; None if there is no such cell any more."""
    before = tables.cell(number)
    after = _stored(before, cell)
    if after == before:
        return
    tables.rows.put(IndexTable.CELLS, number_key(number), after.to_bytes())
    _write_order(tables, number, before, after)
    if after.fault != before.fault:
        if before.fault is not None:
            _remove_fault(tables, number, before.fault)
        if after.fault is not None:
            _add_fault(tables, number, after.fault)


def _stored(before: StoredCell, cell: Cell | None) -> StoredCell:
    if cell is None:
        return StoredCell(GONE, 0, before.word, before.key)
    fault = None
    if cell.fault is not None:
        seq = cell.fault_seq
        assert seq is not None, "a fault has a record"
        fault = StoredFault(cell.fault.kind, message_hash(cell.fault.message), seq)
    status = CELL_STATUSES.index(cell.status)
    return StoredCell(status, min(cell.last_active_ns, NS_MAX), before.word, before.key, fault)


def _write_order(tables: IndexTables, number: int, before: StoredCell, after: StoredCell) -> None:
    rows, name = tables.rows, number_key(number)
    if before.status != after.status:
        if before.status != GONE:
            rows.delete(IndexTable.BY_KEY, _group(before) + order_key(before.key))
            tables.count(OF_CELLS + _group(before), -1)
        if after.status != GONE:
            rows.put(IndexTable.BY_KEY, _group(after) + order_key(after.key), name)
            tables.count(OF_CELLS + _group(after), 1)
    if before.status != GONE:
        rows.delete(IndexTable.BY_ACTIVITY, _group(before) + _ns(before) + name)
    if after.status != GONE:
        rows.put(IndexTable.BY_ACTIVITY, _group(after) + _ns(after) + name)


def _group(cell: StoredCell) -> bytes:
    return cell.word.to_bytes(WORD_BYTES, "big") + bytes([cell.status])


def _ns(cell: StoredCell) -> bytes:
    return cell.last_active_ns.to_bytes(NS_BYTES, "big")


def _add_fault(tables: IndexTables, number: int, fault: StoredFault) -> None:
    place = record_key(fault.seq) + number_key(number)
    tables.rows.put(IndexTable.FAILED, BY_RECORD + place, fault.group)
    tables.rows.put(IndexTable.FAILED, BY_FAULT + fault.group + place)
    tables.count(OF_FAULTS + fault.group, 1)


def _remove_fault(tables: IndexTables, number: int, fault: StoredFault) -> None:
    place = record_key(fault.seq) + number_key(number)
    tables.rows.delete(IndexTable.FAILED, BY_RECORD + place)
    tables.rows.delete(IndexTable.FAILED, BY_FAULT + fault.group + place)
    tables.count(OF_FAULTS + fault.group, -1)
