"""A cell of the reader's state → its rows in the index (spec/index.md, IX-19, IX-21)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.read.index.index_schema import NS_MAX
from aos.read.index.indexed_records import IndexTables
from aos.read.index.indexed_values import IndexedValues
from aos.read.views.cell_selection import reasons_of
from aos.read.views.view import View

REASON_END: Final = "\n"
"""Between the reasons of a cell, which have one name together."""

_STATUSES: Final = {status: number for number, status in enumerate(CELL_STATUSES)}

CellColumns: TypeAlias = tuple[int | None, int | None, int | None]
"""Status, time of the last activity, and reasons; None of a cell that does not exist now."""


def columns_of(tables: IndexTables, state: State, cell: Cell | None) -> CellColumns:
    """The columns of a cell that follow from a state."""
    if cell is None:
        return None, None, None
    reasons = tables.name(REASON_END.join(reasons_of(state, cell)))
    return _STATUSES[cell.status], min(cell.last_active_ns, NS_MAX), reasons


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
            "SELECT status, last_active, reasons FROM cells WHERE number = ?", (number,)
        ).fetchone()
        if columns != previous:
            workflow = tables.name(id[0])
            change.execute(
                f"INSERT INTO {tables.above}cells VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (number) "
                "DO UPDATE SET status = excluded.status, last_active = excluded.last_active, "
                "reasons = excluded.reasons",
                (number, workflow, id[1], *columns),
            )
            for (status, _, reasons), one in ((previous, -1), (columns, 1)):
                if status is not None and reasons is not None:
                    tables.count("cell_counts", (workflow, status, reasons), one)
        if values is not None:
            values.write(view, number, id, cell)
