"""A cell of the reader's state → the values of its attributes (spec/search.md, SE-20 to SE-25).

The table of a workflow is filled in the order in which the state has its cells, that of the hashes
of their keys, then sorted by value. Meanwhile the cells up to ``filled_to`` are kept at the record
of the index, and no list is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.read.index.index_file import IndexChange
from aos.read.index.index_schema import VALUES, leaves_above, leaves_by_value, leaves_table
from aos.read.index.indexed_workflows import IndexedWorkflow
from aos.read.index.ordered_bytes import ordered_bytes
from aos.read.views.cell_selection import subject
from aos.read.views.view import View
from aos.read.where.attributes import Attribute
from aos.values.digests import Hash, content_hash

CELLS_AT_ONCE: Final = 1_024
"""Cells between two looks at the time. A state that has changed takes a while to find the next
one."""


@dataclass(slots=True)
class _WorkflowValues:
    """The table of a workflow. ``filled_to`` is the hash of the last key, None once it has all
    cells; ``cells`` is how many were filled."""

    number: int
    attributes: tuple[Attribute, ...]
    filled_to: bytes | None
    cells: int


FILLED: Final = f"SELECT workflow, name, signature FROM {VALUES}.workflows WHERE filled_to IS NULL"
"""The workflows whose cells are all in their table."""


def filled(
    rows: Iterable[tuple[int, str, bytes]], workflows: Mapping[str, IndexedWorkflow]
) -> Iterator[tuple[int, IndexedWorkflow]]:
    """The numbers and workflows of rows of ``FILLED`` that have the attributes of ``workflows``."""
    for number, name, signature in rows:
        workflow = workflows.get(name)
        if workflow is not None and workflow.signature == signature:
            yield number, workflow


class IndexedValues:
    """Writes the values of the workflows that have a table, in one transaction at a time."""

    def __init__(self, change: IndexChange, *, above: str = "") -> None:
        self._change = change
        self._above = above
        self._workflows: dict[str, _WorkflowValues] = {}
        self._remaining: tuple[State, int, str, Iterator[Cell]] | None = None
        """A state, its record, a workflow, and its cells that are not filled."""

    @classmethod
    def above(cls, change: IndexChange, workflows: Mapping[str, IndexedWorkflow]) -> Self:
        """Values in memory, above the tables of a file that have all cells and these
        attributes."""
        values = cls(change, above="temp.new_")
        for number, workflow in filled(change.execute(FILLED).fetchall(), workflows):
            for statement in leaves_above(number):
                change.execute(statement)
            values._workflows[workflow.name] = _WorkflowValues(number, workflow.in_order(), None, 0)
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
            number, signature, filled_to, cells = stored.get(name, (0, b"", b"", 0))
            if signature != workflow.signature:
                number, filled_to, cells = self._make(workflow), b"", 0
            self._workflows[name] = _WorkflowValues(number, workflow.in_order(), filled_to, cells)

    def _make(self, workflow: IndexedWorkflow) -> int:
        number: int = self._change.execute(
            f"SELECT coalesce(MAX(workflow), 0) + 1 FROM {VALUES}.workflows"
        ).fetchone()[0]
        self._change.execute(
            f"INSERT INTO {VALUES}.workflows VALUES (?, ?, ?, x'', 0)",
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
        if values is None:
            return
        if values.filled_to is not None and content_hash(id[1]) > values.filled_to:
            return  # it is still to come
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
        cells = list(islice(self._cells_to_fill(view.state, name, values), CELLS_AT_ONCE))
        rows: list[tuple[int, int, bytes]] = []
        for cell in cells:
            [number] = self._change.execute(
                "SELECT number FROM main.cells WHERE key = ? AND workflow = "
                "(SELECT id FROM main.names WHERE name = ?)", (cell.id[1], name)
            ).fetchone()  # fmt: skip
            rows += ((number, *leaf) for leaf in _leaves(view, cell, values.attributes))
        self._change.write(
            f"INSERT INTO {VALUES}.leaves{values.number} VALUES (?, ?, ?)", sorted(rows)
        )
        values.cells += len(cells)
        is_over = len(cells) < CELLS_AT_ONCE
        values.filled_to = None if is_over else content_hash(cells[-1].id[1])
        if is_over:
            self._change.execute(leaves_by_value(values.number))
        self._change.execute(
            f"UPDATE {VALUES}.workflows SET filled_to = ?, cells = ? WHERE workflow = ?",
            (values.filled_to, values.cells, values.number),
        )

    def _cells_to_fill(self, state: State, name: str, values: _WorkflowValues) -> Iterator[Cell]:
        remaining = self._remaining
        if remaining is None or remaining[:3] != (state, state.next_seq, name):
            after_hash = Hash(values.filled_to) if values.filled_to else None
            remaining = state, state.next_seq, name, state.cells.of(name, after_hash)
            self._remaining = remaining
        return remaining[3]

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
