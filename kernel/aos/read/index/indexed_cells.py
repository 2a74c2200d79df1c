"""A cell of the reader's state → its rows in the index (spec/index.md, IX-19, IX-21), and the
values of its attributes (spec/search.md, SE-20 to SE-25).

The table of a workflow's values is filled in the order in which the state has its cells, that of
the hashes of their keys, then sorted by value. Meanwhile the cells up to ``filled_to`` are kept at
the record of the index, and no list is read from it.

Values are bytes whose order is that of the values (SE-23):

    first byte   type, in the order of the types' names
    rest         dec128: sign, exponent, digits; bool: a byte; bytes and text: themselves; int: 9
                 bytes with an offset

The order of different types is that of a list without an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final, Self, TypeAlias

from aos.core.journal.records import CellId, Ref, slot_hash
from aos.core.journal.vocabulary import CELL_STATUSES, TERMINAL
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.read.index.index_file import IndexChange
from aos.read.index.index_schema import (
    NS_MAX,
    OF_STATE,
    VALUES,
    leaves_above,
    leaves_by_value,
    leaves_table,
)
from aos.read.index.indexed_records import IndexTables
from aos.read.index.indexed_workflows import IndexedWorkflow
from aos.read.views.cell_selection import reasons_of, subject
from aos.read.views.view import View
from aos.read.where.attributes import Attribute, Comparable
from aos.values.digests import HASH_BYTES, Hash, content_hash

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

CELLS_AT_ONCE: Final = 1_024
"""Cells between two looks at the time. A state that has changed takes a while to find the next
one."""

OTHER: Final = b""
"""A value that is not of the type that the schema says: there, and equal to nothing."""

_DECIMAL, _BOOL, _BYTES, _INT, _TEXT = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"
_INT_BYTES: Final = 9
_INT_OFFSET: Final = 1 << 64
_NEGATIVE, _ZERO, _POSITIVE = b"\x01", b"\x02", b"\x03"
_EXPONENT_OFFSET: Final = 1 << 15
_END: Final = b"\xff"


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


def ordered_bytes(value: Comparable) -> bytes:
    """The bytes of a value as ``ValueKind.of`` returns it; ``OTHER`` of None.

    Equal values have equal bytes, and bytes compare as the values do.
    """
    match value:
        case None:
            return OTHER
        case bool():
            return _BOOL + (b"\x01" if value else b"\x00")
        case int():
            return _INT + (value + _INT_OFFSET).to_bytes(_INT_BYTES, "big")
        case str():
            return _TEXT + value.encode()
        case bytes():
            return _BYTES + value
        case Decimal():
            return _DECIMAL + _decimal(value)
    raise AssertionError(f"no such value: {type(value).__name__}")


def value_of(data: bytes) -> Comparable:
    """The value that ``ordered_bytes`` has made these bytes of, which are not ``OTHER``."""
    kind, tail = data[:1], data[1:]
    if kind == _BOOL:
        return tail == b"\x01"
    if kind == _INT:
        return int.from_bytes(tail, "big") - _INT_OFFSET
    if kind == _TEXT:
        return tail.decode()
    if kind == _BYTES:
        return tail
    assert kind == _DECIMAL, "the index has checked its rows"
    return _decimal_of(tail)


def after_bytes(prefix: bytes) -> bytes | None:
    """The least bytes that come after all that begin with ``prefix``; None if there are none, which
    cannot be for the bytes of a value. After those of a text come those of every text that begins
    with it."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _decimal(value: Decimal) -> bytes:
    if not value:
        return _ZERO
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = bytes(digits).rstrip(b"\x00")
    exponent_bytes = (exponent + len(digits) + _EXPONENT_OFFSET).to_bytes(2, "big")
    if not sign:
        return _POSITIVE + exponent_bytes + number
    # The greater the amount, the smaller the number. So the end of a number comes after each of the
    # digits with which another one continues, and after a zero, too.
    return (
        _NEGATIVE
        + bytes(255 - byte for byte in exponent_bytes)
        + bytes(254 - byte for byte in number)
        + _END
    )


def _decimal_of(data: bytes) -> Decimal:
    if data == _ZERO:
        return Decimal(0)
    is_negative = data[:1] == _NEGATIVE
    exponent_bytes, number = data[1:3], data[3:]
    if is_negative:
        exponent_bytes = bytes(255 - byte for byte in exponent_bytes)
        number = bytes(254 - byte for byte in number.removesuffix(_END))
    exponent = int.from_bytes(exponent_bytes, "big") - _EXPONENT_OFFSET - len(number)
    return Decimal((int(is_negative), tuple(number), exponent))
