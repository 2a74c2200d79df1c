"""A cell of the reader's state → its row in the index, and back (spec/index.md, IX-19 to IX-21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aos.core.journal.records import CellId, Ref, slot_hash
from aos.core.journal.vocabulary import CELL_STATUSES, TERMINAL
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.read.index.index_schema import NS_MAX, OF_STATE
from aos.read.index.indexed_records import IndexTables
from aos.read.index.indexed_values import IndexedValues
from aos.read.views.cell_selection import reasons_of
from aos.read.views.view import View
from aos.values.digests import HASH_BYTES, Hash

REASON_END: Final = "\n"
"""Between the reasons of a cell, which have one name together."""

_STATUSES: Final = {status: number for number, status in enumerate(CELL_STATUSES)}

CellColumns: TypeAlias = tuple[
    int | None, int | None, int | None,
    int | None, bytes | None, int | None, int | None, int | None,
]  # fmt: skip
"""``OF_STATE``: all None of a cell that does not exist now, the last five of one that a list does
not show by its row alone."""

_NO_ENTRY: Final = (None,) * 5
_SET: Final = ", ".join(f"{column} = excluded.{column}" for column in OF_STATE)


def columns_of(tables: IndexTables, state: State, cell: Cell | None) -> CellColumns:
    """The columns of a cell that follow from a state."""
    if cell is None:
        return None, None, None, *_NO_ENTRY
    reasons = tables.name(REASON_END.join(reasons_of(state, cell)))
    status, last_active = _STATUSES[cell.status], min(cell.last_active_ns, NS_MAX)
    if cell.state is None or not cell.is_at_rest or cell.is_kept or cell.last_active_ns > NS_MAX:
        return status, last_active, reasons, *_NO_ENTRY
    code = tables.name(f"{cell.workflow_hash.hex()}{cell.module_hash.hex()}")
    size = cell.state.size if isinstance(cell.state, Ref) else len(cell.state)
    return (
        status, last_active, reasons,
        cell.last_seq, slot_hash(cell.state), size, code, cell.version,
    )  # fmt: skip


def cell_of(id: CellId, columns: Sequence[Any], names: Mapping[int, str]) -> Cell:
    """The cell at rest that the columns ``OF_STATE`` are of, without its idempotency keys."""
    status, last_active_ns, _, last_record, state, size, code, version = columns
    hashes = bytes.fromhex(names[code])
    word = CELL_STATUSES[status]
    return Cell(
        id=id,
        workflow_hash=Hash(hashes[:HASH_BYTES]),
        module_hash=Hash(hashes[HASH_BYTES:]),
        state=Ref(Hash(state), size),
        declared=word if word in TERMINAL else None,
        last_seq=last_record,
        last_active_ns=last_active_ns,
        version=version,
    )


def write_cells(
    tables: IndexTables,
    view: View,
    values: IndexedValues | None,
    cells: Iterable[tuple[int, CellId]],
) -> None:
    """Bring the rows of numbered cells to what they are in the state of a view."""
    change, state = tables.change, view.state
    for number, id in cells:
        cell = state.cells.get(id)
        columns = columns_of(tables, state, cell)
        previous: CellColumns = change.execute(
            f"SELECT {', '.join(OF_STATE)} FROM cells WHERE number = ?", (number,)
        ).fetchone()
        if columns != previous:
            workflow = tables.name(id[0])
            change.execute(
                f"INSERT INTO {tables.above}cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                f"ON CONFLICT (number) DO UPDATE SET {_SET}",
                (number, workflow, id[1], *columns),
            )
            for (status, _, reasons, *_), one in ((previous, -1), (columns, 1)):
                if status is not None and reasons is not None:
                    tables.count("cell_counts", (workflow, status, reasons), one)
        if values is not None:
            values.write(view, number, id, cell)
