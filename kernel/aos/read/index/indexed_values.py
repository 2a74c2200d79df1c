"""A cell of the reader's state → the values of its attributes (spec/search.md, SE-20 to SE-25).

The table of a workflow is filled in the order of the numbers of its cells, then sorted by value.
Meanwhile the cells up to ``filled_to`` are kept at the record of the index, and no list is read
from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.read.index.index_file import IndexChange
from aos.read.index.index_schema import VALUES, leaves_above, leaves_by_value, leaves_table
from aos.read.index.indexed_workflows import IndexedWorkflow
from aos.read.index.ordered_bytes import ordered_bytes
from aos.read.views.cell_selection import subject
from aos.read.views.view import View
from aos.read.where.attributes import Attribute

CELLS_AT_ONCE: Final = 256
"""Cells between two looks at the time."""


@dataclass(slots=True)
class _WorkflowValues:
    """The table of a workflow. ``filled_to`` is None once it has all cells; ``cells`` is how many
    were filled."""

    number: int
    attributes: tuple[Attribute, ...]
    filled_to: int | None
    cells: int


class IndexedValues:
    """Writes the values of the workflows that have a table, in one transaction at a time."""

    def __init__(self, change: IndexChange, *, above: str = "") -> None:
        self._change = change
        self._above = above
        self._workflows: dict[str, _WorkflowValues] = {}

    @classmethod
    def above(cls, change: IndexChange, workflows: Mapping[str, IndexedWorkflow]) -> Self:
        """Values in memory, above the tables of a file that have all cells and these
        attributes."""
        values = cls(change, above="temp.new_")
        for number, name, signature in change.execute(
            f"SELECT workflow, name, signature FROM {VALUES}.workflows WHERE filled_to IS NULL"
        ).fetchall():
            workflow = workflows.get(name)
            if workflow is not None and workflow.signature == signature:
                for statement in leaves_above(number):
                    change.execute(statement)
                values._workflows[name] = _WorkflowValues(number, workflow.in_order(), None, 0)
        return values

    def begin(self, change: IndexChange) -> None:
        """Write in another transaction from now on."""
        self._change = change

    def use(self, workflows: Mapping[str, IndexedWorkflow]) -> None:
        """Drop the tables of all other workflows, and those of other attributes; make the ones that
        are missing."""
        stored = {
            name: (number, signature, filled_to, cells)
            for number, name, signature, filled_to, cells in self._change.execute(
                f"SELECT workflow, name, signature, filled_to, cells FROM {VALUES}.workflows"
            ).fetchall()
        }
        for name, (_, signature, _, _) in stored.items():
            if name not in workflows or workflows[name].signature != signature:
                self.drop(name)
        self._workflows.clear()
        for name, workflow in workflows.items():
            number, signature, filled_to, cells = stored.get(name, (0, b"", 0, 0))
            if signature != workflow.signature:
                number, filled_to, cells = self._make(workflow), 0, 0
            self._workflows[name] = _WorkflowValues(number, workflow.in_order(), filled_to, cells)

    def _make(self, workflow: IndexedWorkflow) -> int:
        number: int = self._change.execute(
            f"SELECT coalesce(MAX(workflow), 0) + 1 FROM {VALUES}.workflows"
        ).fetchone()[0]
        self._change.execute(
            f"INSERT INTO {VALUES}.workflows VALUES (?, ?, ?, 0, 0)",
            (number, workflow.name, workflow.signature),
        )
        self._change.write(
            f"INSERT INTO {VALUES}.attributes VALUES (?, ?, ?, ?)",
            [
                (number, position, path, attribute.kind.name)
                for position, (path, attribute) in enumerate(sorted(workflow.attributes.items()))
            ],
        )
        self._change.execute(leaves_table(number))
        return number

    def drop(self, name: str) -> None:
        """Remove the table of a workflow, if it has one."""
        row = self._change.execute(
            f"SELECT workflow FROM {VALUES}.workflows WHERE name = ?", (name,)
        ).fetchone()
        if row is not None:
            self._change.execute(f"DROP TABLE {VALUES}.leaves{row[0]}")
            for table in ("workflows", "attributes"):
                self._change.execute(f"DELETE FROM {VALUES}.{table} WHERE workflow = ?", row)
        self._workflows.pop(name, None)

    def write(self, view: View, number: int, id: CellId, cell: Cell | None) -> None:
        """Bring the values of a cell to those of its state."""
        values = self._workflows.get(id[0])
        if values is None or (values.filled_to is not None and number > values.filled_to):
            return
        leaves = set() if cell is None else _leaves(view, cell, values.attributes)
        table = f"{self._above or f'{VALUES}.'}leaves{values.number}"
        if self._above:
            self._change.execute(f"INSERT INTO {self._above}subjects VALUES (?)", (number,))
            stored: set[tuple[int, bytes]] = set()
        else:
            rows = self._change.execute(
                f"SELECT attribute, value FROM {table} WHERE cell = ?", (number,)
            )
            stored = set(rows.fetchall())
        is_leaf = "cell = ? AND attribute = ? AND value = ?"
        for sql, changed in (
            (f"DELETE FROM {table} WHERE {is_leaf}", stored - leaves),
            (f"INSERT INTO {table} VALUES (?, ?, ?)", leaves - stored),
        ):
            if changed:
                self._change.write(sql, [(number, *leaf) for leaf in changed])

    def fill(self, view: View, is_late: Callable[[], bool]) -> bool:
        """Write the values of more cells; return whether every table has all."""
        for name, values in self._workflows.items():
            while values.filled_to is not None:
                self._fill_some(view, name, values)
                if is_late():
                    return all(other.filled_to is None for other in self._workflows.values())
        return True

    def _fill_some(self, view: View, name: str, values: _WorkflowValues) -> None:
        cells = self._change.execute(
            # The plus keeps SQLite from another order, which it would have to sort each time.
            "SELECT number, key FROM main.cells WHERE number > ? AND +workflow = "
            "(SELECT id FROM names WHERE name = ?) AND status IS NOT NULL ORDER BY number LIMIT ?",
            (values.filled_to, name, CELLS_AT_ONCE),
        ).fetchall()
        rows: list[tuple[int, int, bytes]] = []
        for number, key in cells:
            cell = view.state.cells.get((name, key))
            if cell is not None:
                rows += sorted((number, *leaf) for leaf in _leaves(view, cell, values.attributes))
        self._change.write(f"INSERT INTO {VALUES}.leaves{values.number} VALUES (?, ?, ?)", rows)
        values.cells += len(cells)
        values.filled_to = cells[-1][0] if len(cells) == CELLS_AT_ONCE else None
        if values.filled_to is None:
            self._change.execute(leaves_by_value(values.number))
        self._change.execute(
            f"UPDATE {VALUES}.workflows SET filled_to = ?, cells = ? WHERE workflow = ?",
            (values.filled_to, values.cells, values.number),
        )

    def remaining(self) -> tuple[str, int] | None:
        """A workflow whose table does not have all cells, and how many it has."""
        for name, values in self._workflows.items():
            if values.filled_to is not None:
                return name, values.cells
        return None


def _leaves(view: View, cell: Cell, attributes: tuple[Attribute, ...]) -> set[tuple[int, bytes]]:
    candidate = subject(view, cell)
    return {
        (position, ordered_bytes(value))
        for position, attribute in enumerate(attributes)
        for value in attribute.comparable(candidate)
    }
