"""The index of cells: SQLite in ``DIR/node/index`` (spec/search.md, SE-20 to SE-26).

    cells         id, workflow, key, values of all attributes, reasons, checksum of the row
    v1, v2, …     value, cell: one table for each attribute of each workflow, in both orders
    facts         world, the last record, and the frame that ends with it

One transaction is open all the time; it is committed a few times a second. Nothing depends on the
index: if it is damaged, or of another world, it is rebuilt from the state.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aos.core.journal.records import CellId
from aos.errors import Damage
from aos.node.search.indexed import FORMAT, IndexedWorkflow
from aos.node.search.ordered_bytes import OTHER, after_prefix, ordered_bytes, value_of
from aos.read.where.attributes import Attribute, Subject
from aos.read.where.condition import EQUAL, IN, NOT, NOT_EQUAL, PREFIX
from aos.read.where.counting import (
    SMALL_MAX,
    CountedCells,
    Group,
    LargeValue,
    group_of,
    numbers_of,
    ranked,
)
from aos.read.where.matching import (
    CellPage,
    CellQuery,
    CombinedCondition,
    Condition,
    Selector,
    single,
)
from aos.values.cbor import decode_record, encode
from aos.values.digests import HASH_BYTES, Hash, content_hash

FILE_NAME: Final = "cells.db"
FILES: Final = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm")

SELECTIVE: Final = 1_000
"""Cells up to which a condition is counted, to find the one that selects the fewest."""

_CHECK_BYTES: Final = 8
_CHECK_MOD: Final = 1 << 64
_REASON_END: Final = "\n"

_GROUP_BYTES_OF: Final = "group_bytes"
"""The SQL function of ``_group_bytes``."""

_SIZE_BYTES: Final = 8
_LARGE: Final = b"\xff"
"""The first byte of a group of values that are too long for a list; of no value."""

_TABLES: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE workflows (name TEXT PRIMARY KEY, signature BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE attributes (id INTEGER PRIMARY KEY, workflow TEXT NOT NULL, path TEXT NOT NULL);
CREATE TABLE cells (
    id INTEGER PRIMARY KEY, workflow TEXT NOT NULL, key BLOB NOT NULL, leaves BLOB NOT NULL,
    reasons TEXT NOT NULL, checked BLOB NOT NULL, UNIQUE (workflow, key)
);
"""

Leaves = list[Any]
"""The values of each attribute of a cell, as bytes, sorted."""


class SearchIndex:
    """The open index. ``seq`` is the last record that its cells follow, ``tip`` the hash of the
    frame that has it. Used by one thread."""

    def __init__(self, path: Path, world: Hash) -> None:
        """Open the index in the folder ``path``; a new one is empty.

        Raises:
            Damage: It is damaged, of another form, or of another world. Remove its files.
        """
        self._db = sqlite3.connect(path / FILE_NAME, isolation_level=None)
        try:
            self._set_up()
            self._db.create_function(_GROUP_BYTES_OF, 1, _group_bytes, deterministic=True)
            is_new = not self._rows("SELECT 1 FROM sqlite_schema LIMIT 1")
            self._db.execute("BEGIN IMMEDIATE")
            if is_new:
                for statement in _TABLES.strip().split(";"):
                    self._db.execute(statement)
                self._put_facts(form=encode(FORMAT), world=world, seq=encode(0), tip=b"")
            facts: dict[str, bytes] = dict(self._rows("SELECT name, value FROM facts"))
            if facts.get("form") != encode(FORMAT) or facts.get("world") != world:
                raise Damage("it is of another world, or of another form")
            seq = decode_record(facts["seq"])
            self.seq = seq if isinstance(seq, int) else 0
            self.tip = facts["tip"]
            self._numbers = {
                (workflow, route): number
                for number, workflow, route in self._rows(
                    "SELECT id, workflow, path FROM attributes"
                )
            }
            self._workflows: dict[str, IndexedWorkflow] = {}
            if not is_new:
                self._check()
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            self._db.close()
            raise Damage(f"it cannot be read: {error}") from error
        except BaseException:
            self._db.close()
            raise

    def _set_up(self) -> None:
        for pragma in (
            "journal_mode=WAL", "synchronous=NORMAL", "trusted_schema=OFF", "cell_size_check=ON",
            "cache_size=-65536", "temp_store=MEMORY",
        ):  # fmt: skip
            self._db.execute(f"PRAGMA {pragma}")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    def _put_facts(self, **facts: bytes) -> None:
        self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    # Checking

    def _check(self) -> None:
        """Compare every row with its checksum, and every value with the row of its cell."""
        [(answer,), *_] = self._rows("PRAGMA integrity_check(1)")
        if answer != "ok":
            raise Damage(f"it is damaged: {answer}")
        sums: Counter[int] = Counter()
        for id, workflow, key, leaves, reasons, checked in self._db.execute(
            "SELECT id, workflow, key, leaves, reasons, checked FROM cells"
        ):
            if _checksum(workflow, key, leaves, reasons) != checked:
                raise Damage("the row of a cell does not have its checksum")
            for number, values in self._numbered(workflow, decode_record(leaves)):
                for value in values:
                    sums[number] = (sums[number] + _digest(value, id)) % _CHECK_MOD
        for number in self._numbers.values():
            checksum = 0
            for value, id in self._db.execute(f"SELECT value, cell FROM v{number}"):  # noqa: S608
                checksum = (checksum + _digest(value, id)) % _CHECK_MOD
            if checksum != sums[number]:
                raise Damage("the values of an attribute are not those of the cells")

    def _numbered(self, workflow: str, leaves: Any) -> Iterator[tuple[int, list[bytes]]]:
        """The values of each attribute, with the number of its table."""
        paths = sorted(route for name, route in self._numbers if name == workflow)
        for route, values in zip(paths, leaves, strict=True):
            yield self._numbers[workflow, route], values

    # Writing

    def is_current(self, workflow: IndexedWorkflow) -> bool:
        """Whether the rows of a workflow are those of its attributes now."""
        rows = self._rows("SELECT signature FROM workflows WHERE name = ?", (workflow.name,))
        return rows == [(workflow.signature,)]

    def use(self, workflow: IndexedWorkflow) -> None:
        """Write and answer with these attributes from now on; its rows must be current."""
        self._workflows[workflow.name] = workflow

    def names(self) -> list[str]:
        """The workflows that have rows."""
        return [name for (name,) in self._rows("SELECT name FROM workflows")]

    def drop(self, name: str) -> None:
        """Remove the rows of a workflow."""
        self._workflows.pop(name, None)
        for workflow, route in [
            numbered_route for numbered_route in self._numbers if numbered_route[0] == name
        ]:
            number = self._numbers.pop((workflow, route))
            self._db.execute(f"DROP TABLE v{number}")
        self._db.execute("DELETE FROM attributes WHERE workflow = ?", (name,))
        self._db.execute("DELETE FROM cells WHERE workflow = ?", (name,))
        self._db.execute("DELETE FROM workflows WHERE name = ?", (name,))

    def fill(self, workflow: IndexedWorkflow, rows: Iterable[tuple[Subject, str]]) -> None:
        """Write a workflow that has no rows: its cells, each with its reasons."""
        for route in sorted(workflow.attributes):
            cursor = self._db.execute(
                "INSERT INTO attributes (workflow, path) VALUES (?, ?)", (workflow.name, route)
            )
            number = cursor.lastrowid
            assert number is not None
            self._numbers[workflow.name, route] = number
            self._db.execute(
                f"CREATE TABLE v{number} (value BLOB NOT NULL, cell INTEGER NOT NULL, "
                "PRIMARY KEY (value, cell)) WITHOUT ROWID"
            )
        self.use(workflow)
        for subject, reasons in rows:
            self._insert(workflow.name, subject.cell.id[1], self._leaves(subject), reasons)
        for number, _ in self._numbered(workflow.name, [[]] * len(workflow.attributes)):
            self._db.execute(f"CREATE INDEX r{number} ON v{number} (cell, value)")
        self._db.execute("INSERT INTO workflows VALUES (?, ?)", (workflow.name, workflow.signature))

    def put(self, subject: Subject, reasons: str) -> None:
        """Write the present values of a cell."""
        workflow, key = subject.cell.id
        leaves = self._leaves(subject)
        row = self._row(workflow, key)
        if row is None:
            self._insert(workflow, key, leaves, reasons)
            return
        id, packed, earlier_reasons = row
        now = encode(leaves)
        if packed == now and earlier_reasons == reasons:
            return
        self._db.execute(
            "UPDATE cells SET leaves = ?, reasons = ?, checked = ? WHERE id = ?",
            (now, reasons, _checksum(workflow, key, now, reasons), id),
        )
        earlier = dict(self._numbered(workflow, decode_record(packed)))
        for number, values in self._numbered(workflow, leaves):
            if values != earlier[number]:
                self._remove(number, id, set(earlier[number]) - set(values))
                self._add(number, id, set(values) - set(earlier[number]))

    def remove(self, cell: CellId) -> None:
        """Remove a cell, if it has a row."""
        row = self._row(*cell)
        if row is None:
            return
        id, packed, _ = row
        for number, values in self._numbered(cell[0], decode_record(packed)):
            self._remove(number, id, values)
        self._db.execute("DELETE FROM cells WHERE id = ?", (id,))

    def commit(self, seq: int, tip: bytes) -> None:
        """Make durable that the cells follow record ``seq``, in the frame ``tip``."""
        self.seq, self.tip = seq, tip
        self._put_facts(seq=encode(seq), tip=tip)
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close the index without a commit."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")
        self._db.close()

    def _row(self, workflow: str, key: bytes) -> tuple[int, bytes, str] | None:
        row: tuple[int, bytes, str] | None = self._db.execute(
            "SELECT id, leaves, reasons FROM cells WHERE workflow = ? AND key = ?", (workflow, key)
        ).fetchone()
        return row

    def _insert(self, workflow: str, key: bytes, leaves: Leaves, reasons: str) -> None:
        packed = encode(leaves)
        cursor = self._db.execute(
            "INSERT INTO cells (workflow, key, leaves, reasons, checked) VALUES (?, ?, ?, ?, ?)",
            (workflow, key, packed, reasons, _checksum(workflow, key, packed, reasons)),
        )
        assert cursor.lastrowid is not None
        for number, values in self._numbered(workflow, leaves):
            self._add(number, cursor.lastrowid, values)

    def _add(self, number: int, id: int, values: Iterable[bytes]) -> None:
        self._db.executemany(
            f"INSERT INTO v{number} VALUES (?, ?)",  # noqa: S608
            [(value, id) for value in values],
        )

    def _remove(self, number: int, id: int, values: Iterable[bytes]) -> None:
        self._db.executemany(
            f"DELETE FROM v{number} WHERE value = ? AND cell = ?",  # noqa: S608
            [(value, id) for value in values],
        )

    def _leaves(self, subject: Subject) -> Leaves:
        attributes = self._workflows[subject.cell.id[0]].attributes
        return [
            sorted({ordered_bytes(value) for value in attributes[route].comparable(subject)})
            for route in sorted(attributes)
        ]

    # Reading

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage | None:
        """See ``CellFinder``."""
        if query.after_position is not None or not self._has(query, query.order):
            return None
        return _Asking(self._db, query, self._numbers).page(limit, offset)

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells | None:
        """See ``CellFinder``."""
        if not self._has(query, by):
            return None
        return _Asking(self._db, query, self._numbers).count(by, limit)

    def _has(self, query: CellQuery, extra: Attribute | None) -> bool:
        """Whether the attributes of a query, and one more, are indexed."""
        attributes = [condition.attribute for condition in single(query.conditions)]
        return query.workflow in self._workflows and all(
            (query.workflow, attribute.path) in self._numbers
            for attribute in ([*attributes] if extra is None else [*attributes, extra])
        )


class _Asking:
    """One query as SQL. ``WHERE`` names a cell ``c``."""

    def __init__(
        self, db: sqlite3.Connection, query: CellQuery, numbers: Mapping[tuple[str, str], int]
    ) -> None:
        assert query.workflow is not None, "an index of attributes is of one workflow"
        self._db = db
        self._query = query
        self._workflow = query.workflow
        self._numbers = numbers

    def page(self, limit: int, offset: int) -> CellPage:
        passing_cells, values = self._passing_cells()
        reasons: Counter[str] = Counter()
        total = 0
        for text, number in self._db.execute(
            f"SELECT c.reasons, COUNT(*) FROM {passing_cells} GROUP BY c.reasons",  # noqa: S608
            values,
        ):
            total += number
            for reason in text.split(_REASON_END) if text else ():
                reasons[reason] += number
        rows = self._db.execute(
            f"SELECT c.key FROM {passing_cells} ORDER BY {self._order()} "  # noqa: S608
            "LIMIT ? OFFSET ?",
            [*values, limit, offset],
        ).fetchall()
        return CellPage([(self._workflow, key) for (key,) in rows], total, reasons)

    def count(self, by: Attribute | None, limit: int) -> CountedCells:
        passing_cells, values = self._passing_cells()
        if by is None:
            [(count,)] = self._db.execute(f"SELECT COUNT(*) FROM {passing_cells}", values)  # noqa: S608
            return CountedCells(count)
        rows = self._db.execute(
            f"WITH chosen AS MATERIALIZED (SELECT c.id AS id FROM {passing_cells}) "  # noqa: S608
            f"SELECT CASE WHEN length(v.value) > {SMALL_MAX} THEN {_GROUP_BYTES_OF}(v.value) "
            "ELSE v.value END, (SELECT COUNT(*) FROM chosen) FROM chosen "
            f"LEFT JOIN {self._table(by)} v ON v.cell = chosen.id AND v.value > x'{OTHER.hex()}'",
            values,
        )
        # The same number of cells is in each row.
        numbers: Counter[tuple[bytes | None, int]] = numbers_of(
            rows, lambda row: len(row[0] or b""), lambda: None
        )
        count = next(iter(numbers), (None, 0))[1]
        by_group = {_read_group(data): number for (data, _), number in numbers.items()}
        return ranked(count, by_group, limit)

    def _passing_cells(self) -> tuple[str, list[Any]]:
        """What comes after FROM for the cells that pass."""
        source, source_values = self._source()
        terms = [self._term(condition) for condition in self._query.conditions]
        where_sql = " AND ".join(["c.workflow = ?", *(sql for sql, _ in terms)])
        values = [*source_values, self._workflow, *(value for _, some in terms for value in some)]
        return f"{source} WHERE {where_sql}", values

    def _table(self, attribute: Attribute) -> str:
        return f"v{self._numbers[self._workflow, attribute.path]}"

    def _source(self) -> tuple[str, list[Any]]:
        """The cells to look at: those of the condition that selects the fewest."""
        best: tuple[int, str, list[Any]] | None = None
        for condition in self._query.conditions:
            if isinstance(condition, CombinedCondition):
                continue
            ranged = _ranges(condition)
            if ranged is None:
                continue
            sql, values = ranged
            table = self._table(condition.attribute)
            [(number,)] = self._db.execute(
                f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE {sql} LIMIT {SELECTIVE})",  # noqa: S608
                values,
            ).fetchall()
            if best is None or number < best[0]:
                cells = f"(SELECT DISTINCT cell FROM {table} WHERE {sql}) s"  # noqa: S608
                best = number, f"{cells} CROSS JOIN cells c ON c.id = s.cell", values
        return ("cells c", []) if best is None else best[1:]

    def _term(self, condition: Selector) -> tuple[str, list[Any]]:
        if isinstance(condition, CombinedCondition):
            return self._combined(condition)
        rows_sql = f"SELECT 1 FROM {self._table(condition.attribute)} WHERE cell = c.id"  # noqa: S608
        if condition.is_null:
            return (f"{'NOT ' if condition.operator == EQUAL else ''}EXISTS ({rows_sql})", [])
        if condition.operator == NOT_EQUAL:
            return (f"NOT EXISTS ({rows_sql} AND value = ?)", [ordered_bytes(condition.values[0])])
        ranged = _ranges(condition)
        assert ranged is not None
        return f"EXISTS ({rows_sql} AND {ranged[0]})", ranged[1]

    def _combined(self, combined: CombinedCondition) -> tuple[str, list[Any]]:
        terms = [self._term(part) for part in combined.parts]
        joined = f" {combined.word} ".join(f"({sql})" for sql, _ in terms)
        sql = f"NOT ({joined})" if combined.word == NOT else f"({joined})"
        return sql, [value for _, some in terms for value in some]

    def _order(self) -> str:
        order = self._query.order
        ties = "c.key"
        if self._query.by_text:
            table = f"v{self._numbers[self._workflow, '@key']}"
            ties = f"(SELECT value FROM {table} WHERE cell = c.id)"  # noqa: S608
        if order is None:
            return ties
        best, way = ("MAX", "DESC") if self._query.is_descending else ("MIN", "ASC")
        value_sql = (
            f"(SELECT {best}(value) FROM {self._table(order)} "  # noqa: S608
            f"WHERE cell = c.id AND value > x'{OTHER.hex()}')"
        )
        return f"{value_sql} {way} NULLS LAST, {ties}"


def _ranges(condition: Condition) -> tuple[str, list[Any]] | None:
    """The values that pass a condition, as SQL; None if it selects cells that have none of them."""
    if condition.is_null or condition.operator == NOT_EQUAL:
        return None
    ordered_values = [ordered_bytes(value) for value in condition.values]
    if condition.operator in (EQUAL, IN):
        return f"value IN ({', '.join('?' * len(ordered_values))})", list(ordered_values)
    if condition.operator == PREFIX:
        return "(value >= ? AND value < ?)", [ordered_values[0], after_prefix(condition.values[0])]
    # Values of other types have another first byte.
    least, beyond = ordered_values[0][:1], bytes([ordered_values[0][0] + 1])
    sql = f"(value {condition.operator} ? AND value >= ? AND value < ?)"
    return sql, [ordered_values[0], least, beyond]


def reasons_text(reasons: Iterable[str]) -> str:
    """The reasons that a cell waits for, as the index keeps them."""
    return _REASON_END.join(reasons)


def _checksum(workflow: str, key: bytes, leaves: bytes, reasons: str) -> bytes:
    return content_hash(encode([workflow, key, leaves, reasons]))[:_CHECK_BYTES]


def _digest(value: bytes, id: int) -> int:
    return int.from_bytes(content_hash(value + id.to_bytes(8, "big"))[:_CHECK_BYTES], "big")


def _group_bytes(data: bytes) -> bytes:
    """The bytes of a value; of one that is too long for a list, type, hash and size."""
    group = group_of(value_of(data))
    if group is None or not isinstance(group[1], LargeValue):
        return data
    return _LARGE + group[0].encode() + group[1].hash + group[1].size.to_bytes(_SIZE_BYTES, "big")


def _read_group(data: bytes | None) -> Group:
    if data is None:
        return None
    if data.startswith(_LARGE):
        kind, reference = data[1 : -HASH_BYTES - _SIZE_BYTES], data[-HASH_BYTES - _SIZE_BYTES :]
        size = int.from_bytes(reference[HASH_BYTES:], "big")
        return kind.decode(), LargeValue(Hash(reference[:HASH_BYTES]), size)
    return group_of(value_of(data))
