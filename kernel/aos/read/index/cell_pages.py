"""Pages and numbers of cells by SQL (spec/index.md, IX-41; spec/search.md, SE-20).

    by key        for each workflow, its rows in ``cells_by_key`` or ``cells_by_text``
    by activity   those of all workflows and statuses in ``cells_by_activity``, merged
    by values     of one workflow: the cells of the term that selects the fewest, then the others

Numbers of cells come from ``cell_counts``, except those of a beginning and of values, for which
each row that passes is counted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.read.index.index_file import IndexFile
from aos.read.index.index_schema import NS_MAX, OF_STATE, TEXT
from aos.read.index.indexed_cells import (
    OTHER,
    REASON_END,
    after_bytes,
    cell_of,
    ordered_bytes,
    value_of,
)
from aos.read.where.attributes import OF_EVERY_CELL, Attribute
from aos.read.where.condition import EQUAL, IN, NOT, NOT_EQUAL, PREFIX
from aos.read.where.matching import (
    SMALL_MAX,
    CellPage,
    CellQuery,
    CombinedCondition,
    Condition,
    CountedCells,
    Group,
    LargeValue,
    Selector,
    group_of,
    numbers_of,
    ranked,
    single,
)
from aos.values.digests import HASH_BYTES, Hash

STATUS: Final = OF_EVERY_CELL["status"]
LAST_ACTIVE: Final = OF_EVERY_CELL["last_active"]
KEY: Final = OF_EVERY_CELL["key"]

SELECTIVE: Final = 1_000
"""Cells up to which a condition is counted, to find the one that selects the fewest."""

ARMS_MAX: Final = 200
"""Selections that one statement merges; SQLite takes 500."""

KEYS_MAX: Final = 500
"""Cells whose rows one statement reads."""

TextOfKey: TypeAlias = Callable[[CellId], str]

KeptValues: TypeAlias = Mapping[str, tuple[int, Mapping[str, int]]]
"""By workflow: the number of the table of its values, and the attributes by their paths."""

_TEXT: Final = TEXT.format(key="c.key")
_COLUMNS: Final = {STATUS.path: "c.status", LAST_ACTIVE.path: "c.last_active"}
_FROM_CELLS: Final = "cells c WHERE "
_SIZE_BYTES: Final = 8
_LARGE: Final = b"\xff"
"""The first byte of a group of values that are too long for a list; of no value."""


@dataclass(frozen=True, slots=True)
class _Arm:
    """Rows of ``cells``: the text after FROM, and its parameters."""

    sql: str
    values: tuple[Any, ...]


@dataclass(slots=True)
class _Plan:
    """A query that the index answers. ``workflows`` are those that it may have, by name;
    ``statuses`` those of its cells; ``prefix`` the beginning of their keys; ``terms`` all else."""

    workflows: Sequence[str]
    statuses: frozenset[int]
    prefix: str | None
    terms: tuple[Selector, ...]
    query: CellQuery
    kept: tuple[int, Mapping[str, int]] | None
    """The table of the values that the query needs, and its attributes; None if it needs none."""
    selected: _Arm | None = None
    """The rows that pass, of a query that needs values. ``has_source``: they are those of a term,
    which selects the fewest; ``is_few``: less than ``SELECTIVE`` of them."""
    is_few: bool = False
    has_source: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether ``cell_counts`` has the number of these cells."""
        return self.prefix is None and not self.terms


class CellPages:
    """Answers queries for cells from the index at one moment (a ``CellFinder``)."""

    def __init__(
        self,
        file: IndexFile,
        names: Mapping[int, str],
        values: KeptValues,
        text_of: TextOfKey,
        check_time: Callable[[], None],
        *,
        cells_at: int = 0,
        is_above: bool = False,
    ) -> None:
        """``cells_at`` is the record of the state that the cells were numbered from."""
        self._cells_at = cells_at
        self._is_above = is_above
        self._file = file
        self._names = names
        self._numbers = {name: number for number, name in names.items()}
        self._values = values
        self._text_of = text_of
        self._check_time = check_time
        self._counts: list[tuple[int, int, int, int]] | None = None
        file.db.create_function("begins", 3, self._begins, deterministic=True)
        file.db.create_function("group_bytes", 1, _group_bytes, deterministic=True)
        file.limit(check_time)

    def _begins(self, workflow: int, key: bytes, prefix: str) -> bool:
        """Whether the text of a key that is no text begins so; called by SQLite."""
        text = ""

        def read() -> None:
            nonlocal text
            text = self._text_of((self._names[workflow], key))

        if self._file.ends_by(read):
            raise ValueError("the key cannot be read")
        return text.startswith(prefix)

    # Queries

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage | None:
        """See ``CellFinder``: None for conditions and orders that the index does not have."""
        plan = self._plan(query, query.order)
        if plan is None:
            return None
        if plan.kept is not None and plan.is_few:
            return self._few(plan, limit, offset)
        numbers = self._totals(plan)
        total, reasons = numbers.total(), self._reasons(numbers)
        if offset >= total:  # perhaps more than can be counted
            return CellPage([], total, reasons)
        rows = self._in_order(plan)
        return CellPage(list(islice(rows, offset, offset + limit)), total, reasons)

    def _few(self, plan: _Plan, limit: int, offset: int) -> CellPage:
        """A page of few cells: all of them are read at once."""
        assert plan.selected is not None
        order = ", ".join(f"{column} {way}" for column, way in self._order(plan).items())
        rows = list(
            self._file.select(
                f"SELECT c.key, c.reasons FROM {plan.selected.sql} ORDER BY {order}",
                plan.selected.values,
            )
        )
        reasons = self._reasons(Counter(name for _, name in rows))
        page_rows = rows[offset : offset + limit]
        return CellPage([(plan.workflows[0], key) for key, _ in page_rows], len(rows), reasons)

    def _reasons(self, numbers: Counter[int]) -> Counter[str]:
        """Numbers of cells by reason, from those by the name of their reasons."""
        reasons = Counter[str]()
        for name, count in numbers.items():
            text = self._names[name]
            for reason in text.split(REASON_END) if text else ():
                reasons[reason] += count
        return reasons

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells | None:
        """See ``CellFinder``: None for conditions and groups that the index does not have."""
        plan = self._plan(query, by)
        if plan is None:
            return None
        if by is None:
            return CountedCells(self._totals(plan).total())
        total, groups = self._groups(plan, by)
        return ranked(total, groups, limit)

    def at_rest(self, ids: Sequence[CellId]) -> dict[CellId, Cell]:
        """See ``CellFinder``."""
        migrated_at = dict(
            self._file.rows("SELECT workflow, MAX(record) FROM migrations GROUP BY workflow")
        )
        cells: dict[CellId, Cell] = {}
        for name in dict.fromkeys(name for name, _ in ids):
            workflow = self._numbers[name]
            # A migration replaces the states of a workflow, and names no cell.
            since = migrated_at.get(workflow, 0)
            since = since if since > self._cells_at else 0
            keys = [key for workflow_name, key in ids if workflow_name == name]
            for first in range(0, len(keys), KEYS_MAX):
                some = keys[first : first + KEYS_MAX]
                for key, *columns in self._file.select(
                    f"SELECT key, {', '.join(OF_STATE)} FROM cells WHERE workflow = ? "
                    f"AND key IN ({', '.join('?' * len(some))}) AND last_record > ? "
                    "AND state IS NOT NULL",
                    (workflow, *some, since),
                ):
                    cells[name, key] = cell_of((name, key), columns, self._names)
        return cells

    def _plan(self, query: CellQuery, extra: Attribute | None) -> _Plan | None:
        """How a query is answered; None if the index does not have what it needs."""
        statuses, prefix, terms = _columns(query.conditions)
        attributes = [condition.attribute for condition in single(terms)]
        attributes += [] if extra is None else [extra]
        paths = {attribute.path for attribute in attributes} - {*_COLUMNS}
        kept = None
        if paths:
            kept = self._values.get(query.workflow or "")
            if kept is None or not paths <= {*kept[1]}:
                return None
        names = sorted({self._names[workflow] for workflow, *_ in self._cell_counts()})
        workflows = [name for name in names if query.workflow in (None, name)]
        plan = _Plan(workflows, statuses, prefix, tuple(terms), query, kept)
        if kept is not None and workflows:
            self._select(plan)
        return plan

    # Numbers

    def _cell_counts(self) -> list[tuple[int, int, int, int]]:
        if self._counts is None:
            self._counts = self._file.rows(
                "SELECT workflow, status, reasons, count FROM cell_counts WHERE count > 0"
            )
        return self._counts

    def _totals(self, plan: _Plan) -> Counter[int]:
        """The number of cells by the name of their reasons."""
        numbers = Counter[int]()
        if plan.is_counted:
            for workflow, status, reasons, count in self._cell_counts():
                if self._names[workflow] in plan.workflows and status in plan.statuses:
                    numbers[reasons] += count
            return numbers
        for name in plan.workflows:
            for arm in self._arms(plan, name):
                sql = f"SELECT c.reasons, COUNT(*) FROM {arm.sql} GROUP BY c.reasons"
                for reasons, count in self._file.select(sql, arm.values):
                    numbers[reasons] += count
        return numbers

    def _groups(self, plan: _Plan, by: Attribute) -> tuple[int, Mapping[Group, int]]:
        """The number of cells, and by the values of an attribute. A cell may have several."""
        if by == STATUS and plan.is_counted:
            numbers = Counter[Group]()
            for workflow, status, _, count in self._cell_counts():
                if self._names[workflow] in plan.workflows and status in plan.statuses:
                    numbers["str", CELL_STATUSES[status]] += count
            return numbers.total(), numbers
        total = 0

        def values() -> Iterator[Any]:
            nonlocal total
            last_cell = None
            for name in plan.workflows:
                for arm in self._arms(plan, name):
                    for cell, value in self._file.select(*_grouped(plan, arm, by)):
                        total += cell != last_cell
                        last_cell = cell
                        yield value

        by_data = numbers_of(values(), _bytes_of, self._check_time)
        return total, {_read_group(by, data): number for data, number in by_data.items()}

    # Rows

    def _in_order(self, plan: _Plan) -> Iterator[CellId]:
        """The cells after the cursor of a query, in its order."""
        query = plan.query
        if query.order != LAST_ACTIVE or plan.kept is not None:
            for name in plan.workflows:
                if query.after_position is not None and query.order is None:
                    at = query.after_position[1]
                    if name < at[0]:
                        continue
                    after = at[1] if name == at[0] else None
                else:
                    after = None
                yield from self._by_key(plan, name, after)
            return
        yield from self._by_activity(plan)

    def _by_key(self, plan: _Plan, name: str, after: bytes | None) -> Iterator[CellId]:
        """The cells of one workflow, by key or in the order of an attribute."""
        order = self._order(plan)
        if self._is_sorted(plan):
            for row in self._by_value(plan, [*order][-1]):
                yield name, row[0]
            return
        columns = ", ".join(("c.key", *order))
        ways = ", ".join(f"{2 + number} {way}" for number, way in enumerate(order.values()))
        arms = self._arms(plan, name, after)
        if not arms:
            return
        sql = " UNION ALL ".join(f"SELECT {columns} FROM {arm.sql}" for arm in arms)
        values = [value for arm in arms for value in arm.values]
        for row in self._file.select(f"{sql} ORDER BY {ways}", values):
            yield name, row[0]

    def _is_sorted(self, plan: _Plan) -> bool:
        """Whether most cells pass, and the index has them in the order of the query: SQLite does
        not merge that order with the one of newer values in memory."""
        order = plan.query.order
        is_value = order is not None and order.path not in _COLUMNS
        return is_value and not plan.has_source and not self._is_above

    def _by_value(self, plan: _Plan, ties: str) -> Iterator[Any]:
        """The cells of one workflow in the order of their values, as the index has sorted them;
        then those without a value."""
        assert plan.selected is not None
        assert plan.query.order is not None
        table, attribute = _table(plan, plan.query.order)
        passes = plan.selected.sql.removeprefix(_FROM_CELLS)
        way, better = ("DESC", ">") if plan.query.is_descending else ("ASC", "<")
        is_value = f"attribute = {attribute} AND value > x'{OTHER.hex()}'"
        is_better = f"cell = l.cell AND {is_value} AND value {better} l.value"
        yield from self._file.select(
            f"SELECT c.key FROM {table} l CROSS JOIN cells c ON c.number = l.cell "
            f"WHERE l.attribute = {attribute} AND l.value > x'{OTHER.hex()}' "
            f"AND NOT EXISTS (SELECT 1 FROM {table} WHERE {is_better}) AND {passes} "
            f"ORDER BY l.value {way}, {ties}",
            plan.selected.values,
        )
        yield from self._file.select(
            f"SELECT c.key FROM cells c WHERE {passes} AND NOT EXISTS "
            f"(SELECT 1 FROM {table} WHERE cell = c.number AND {is_value}) ORDER BY {ties}",
            plan.selected.values,
        )

    def _order(self, plan: _Plan) -> dict[str, str]:
        """The columns that the cells of one workflow are sorted by, each with its direction."""
        query = plan.query
        ties = _TEXT if query.by_text else "c.key"
        if query.order is None:
            return {ties: "ASC"}
        column = _COLUMNS.get(query.order.path)
        if query.order == STATUS:
            words = sorted(CELL_STATUSES)
            cases = " ".join(
                f"WHEN {number} THEN {words.index(status)}"
                for number, status in enumerate(CELL_STATUSES)
            )
            column = f"CASE c.status {cases} END"
        if column is None:
            table, attribute = _table(plan, query.order)
            best = "MAX" if query.is_descending else "MIN"
            column = (
                f"(SELECT {best}(value) FROM {table} WHERE cell = c.number "
                f"AND attribute = {attribute} AND value > x'{OTHER.hex()}')"
            )
        return {column: "DESC NULLS LAST" if query.is_descending else "ASC NULLS LAST", ties: "ASC"}

    def _by_activity(self, plan: _Plan) -> Iterator[CellId]:
        """The cells of all workflows by the time of their last activity, then workflow and key."""
        query, rank = plan.query, {name: at for at, name in enumerate(plan.workflows)}
        arms = [
            (rank[name], narrowed)
            for name in plan.workflows
            for arm in self._arms(plan, name)
            for narrowed in self._after_moment(query, name, arm)
        ]
        way = "DESC" if query.is_descending else "ASC"
        sign = -1 if query.is_descending else 1
        sorted_arms = []
        for first in range(0, len(arms), ARMS_MAX):
            some = arms[first : first + ARMS_MAX]
            sql = " UNION ALL ".join(
                f"SELECT c.last_active, {at}, c.key FROM {arm.sql}" for at, arm in some
            )
            values = [value for _, arm in some for value in arm.values]
            rows = self._file.select(f"{sql} ORDER BY 1 {way}, 2, 3", values)
            sorted_arms.append((sign * ns, at, key) for ns, at, key in rows)
        for _, at, key in heapq.merge(*sorted_arms):
            yield plan.workflows[at], key

    def _after_moment(self, query: CellQuery, name: str, arm: _Arm) -> Iterator[_Arm]:
        """The rows of a workflow after the cursor of a query."""
        if query.after_position is None:
            yield arm
            return
        number, (workflow, key) = query.after_position
        moment = min(max(-number if query.is_descending else number, 0), NS_MAX)
        later = "<" if query.is_descending else ">"
        if name < workflow:
            yield _narrowed(arm, f"c.last_active {later} ?", [moment])
        elif name > workflow:
            yield _narrowed(arm, f"c.last_active {later}= ?", [moment])
        else:
            term = f"c.last_active {later}= ? AND (c.last_active {later} ? OR c.key > ?)"
            yield _narrowed(arm, term, [moment, moment, key])

    # Selections

    def _arms(self, plan: _Plan, name: str, after: bytes | None = None) -> list[_Arm]:
        """The rows of one workflow that pass, those after a key. Each row is in one arm."""
        workflow = self._numbers[name]
        if plan.kept is not None:
            assert plan.selected is not None
            arms = [plan.selected]
        elif plan.prefix is not None:
            arms = _beginning(plan.prefix, workflow, _is_status(plan))
        else:
            present = {status for number, status, *_ in self._cell_counts() if number == workflow}
            arms = [
                _Arm(f"cells c WHERE c.workflow = {workflow} AND c.status = {status}", ())
                for status in sorted(present & plan.statuses)
            ]
        if after is not None:
            arms = [_narrowed(arm, "c.key > ?", [after]) for arm in arms]
        elif plan.prefix is None and plan.query.order != LAST_ACTIVE:
            # Each key passes; so SQLite takes the table that sorts by key.
            arms = [_narrowed(arm, "c.key >= x''", []) for arm in arms]
        for term in () if plan.kept is not None else plan.terms:
            arms = [_narrowed(arm, *self._term(plan, term)) for arm in arms]
        return arms

    # Values

    def _select(self, plan: _Plan) -> None:
        """Find the rows of a query that needs values: those of the term that selects the fewest,
        then those of them that pass the others."""
        conditions = [*plan.terms]
        if plan.prefix is not None:
            conditions.append(Condition(KEY, PREFIX, (plan.prefix,)))
        is_of = f"c.workflow = {self._numbers[plan.workflows[0]]} AND {_is_status(plan)}"
        plan.selected = _Arm(f"{_FROM_CELLS}{is_of}", ())
        fewest, source = SELECTIVE + 1, None
        for condition in conditions:
            if isinstance(condition, CombinedCondition) or condition.attribute.path in _COLUMNS:
                continue
            ranged = _ranges(condition)
            if ranged is None:
                continue
            table, attribute = _table(plan, condition.attribute)
            rows_sql = f"FROM {table} WHERE attribute = {attribute} AND {ranged[0]}"
            [(number,)] = self._file.select(
                f"SELECT COUNT(*) FROM (SELECT 1 {rows_sql} LIMIT {SELECTIVE})", ranged[1]
            )
            if number < fewest:
                # The plus keeps SQLite from tables that sort cells in other ways.
                plain = is_of.replace("c.", "+c.")
                sql = f"cells c WHERE c.number IN (SELECT cell {rows_sql}) AND {plain}"
                fewest, source, plan.selected = number, condition, _Arm(sql, (*ranged[1],))
        plan.is_few, plan.has_source = fewest < SELECTIVE, source is not None
        for condition in conditions:
            if condition is not source:
                plan.selected = _narrowed(plan.selected, *self._term(plan, condition))

    def _term(self, plan: _Plan, condition: Selector) -> tuple[str, list[Any]]:
        if isinstance(condition, CombinedCondition):
            return self._combined(plan, condition)
        column = _COLUMNS.get(condition.attribute.path)
        if column is not None:
            return _column_term(condition, column)
        table, attribute = _table(plan, condition.attribute)
        rows_sql = f"SELECT 1 FROM {table} WHERE cell = c.number AND attribute = {attribute}"
        if condition.is_null:
            return f"{'NOT ' if condition.operator == EQUAL else ''}EXISTS ({rows_sql})", []
        if condition.operator == NOT_EQUAL:
            return f"NOT EXISTS ({rows_sql} AND value = ?)", [ordered_bytes(condition.values[0])]
        ranged = _ranges(condition)
        assert ranged is not None
        return f"EXISTS ({rows_sql} AND {ranged[0]})", ranged[1]

    def _combined(self, plan: _Plan, combined: CombinedCondition) -> tuple[str, list[Any]]:
        terms = [self._term(plan, part) for part in combined.parts]
        joined = f" {combined.word} ".join(f"({sql})" for sql, _ in terms)
        sql = f"NOT ({joined})" if combined.word == NOT else f"({joined})"
        return sql, [value for _, some in terms for value in some]


def _narrowed(arm: _Arm, term: str, values: Sequence[Any]) -> _Arm:
    return _Arm(f"{arm.sql} AND {term}", (*arm.values, *values))


def _is_status(plan: _Plan) -> str:
    return f"c.status IN ({', '.join(map(str, sorted(plan.statuses)))})"


def _table(plan: _Plan, attribute: Attribute) -> tuple[str, int]:
    """The table with the values of an attribute, and the number of the attribute in it."""
    assert plan.kept is not None, "a query that needs values has a table"
    number, attributes = plan.kept
    return f"leaves{number}", attributes[attribute.path]


def _columns(
    conditions: Sequence[Selector],
) -> tuple[frozenset[int], Any, list[Selector]]:
    """The statuses and the beginning of the key that conditions ask for, which are columns of a
    cell's row, and the other conditions."""
    statuses, prefix = frozenset(range(len(CELL_STATUSES))), None
    terms: list[Selector] = []
    for condition in conditions:
        if isinstance(condition, Condition) and not condition.is_null:
            if condition.attribute == STATUS and condition.operator in (EQUAL, IN):
                statuses &= {CELL_STATUSES.index(status) for status in condition.values}
                continue
            if condition.attribute == KEY and condition.operator == PREFIX and prefix is None:
                prefix = condition.values[0]
                continue
        terms.append(condition)
    return statuses, prefix, terms


def _beginning(prefix: str, workflow: int, is_status: str) -> list[_Arm]:
    """The cells whose keys begin so: texts by a range, others one by one."""
    low = prefix.encode(errors="surrogatepass")
    high = after_bytes(low)
    texts, values = f"{_TEXT} >= ?", [low]
    if high is not None:
        texts, values = f"{texts} AND {_TEXT} < ?", [low, high]
    is_of = f"cells c WHERE c.workflow = {workflow} AND {is_status}"
    return [
        _Arm(f"{is_of} AND {texts}", (*values,)),
        *(
            _Arm(f"{is_of} AND {others} AND begins(c.workflow, c.key, ?)", (prefix,))
            for others in ("c.key < x'60'", "c.key >= x'80'")
        ),
    ]


def _grouped(plan: _Plan, arm: _Arm, by: Attribute) -> tuple[str, tuple[Any, ...]]:
    """The statement that selects the number of each cell with its values, one per row; the rows of
    a cell follow each other."""
    column = _COLUMNS.get(by.path)
    if column is not None:
        return f"SELECT c.number, {column} FROM {arm.sql}", arm.values
    table, attribute = _table(plan, by)
    sql = (
        f"WITH chosen AS MATERIALIZED (SELECT c.number AS number FROM {arm.sql}) "
        f"SELECT chosen.number, CASE WHEN length(v.value) > {SMALL_MAX} THEN group_bytes(v.value) "
        f"ELSE v.value END FROM chosen LEFT JOIN {table} v ON v.cell = chosen.number "
        f"AND v.attribute = {attribute} AND v.value > x'{OTHER.hex()}'"
    )
    return sql, arm.values


def _ranges(condition: Condition) -> tuple[str, list[Any]] | None:
    """The values that pass a condition, as SQL; None if it selects cells that have none of them."""
    if condition.is_null or condition.operator == NOT_EQUAL:
        return None
    ordered_values = [ordered_bytes(value) for value in condition.values]
    if condition.operator in (EQUAL, IN):
        return f"value IN ({', '.join('?' * len(ordered_values))})", list(ordered_values)
    if condition.operator == PREFIX:
        sql = "(value >= ? AND value < ?)"
        return sql, [ordered_values[0], after_bytes(ordered_values[0])]
    # Values of other types have another first byte.
    least, beyond = ordered_values[0][:1], bytes([ordered_values[0][0] + 1])
    sql = f"(value {condition.operator} ? AND value >= ? AND value < ?)"
    return sql, [ordered_values[0], least, beyond]


def _column_term(condition: Condition, column: str) -> tuple[str, list[Any]]:
    """A term on what every cell has: a status, as its number, or a time."""
    if condition.is_null:
        return ("0" if condition.operator == EQUAL else "1"), []
    if condition.attribute == STATUS:
        numbers = [
            number for number, status in enumerate(CELL_STATUSES) if condition.passes(status)
        ]
        return f"{column} IN ({', '.join(map(str, numbers))})", []
    values = [min(max(value, -NS_MAX), NS_MAX) for value in condition.values]
    if condition.operator == IN:
        return f"{column} IN ({', '.join('?' * len(values))})", values
    return f"{column} {condition.operator} ?", values


def _bytes_of(data: object) -> int:
    return len(data) if isinstance(data, bytes) else 0


def _group_bytes(data: bytes) -> bytes:
    """The bytes of a value; of one that is too long for a list, type, hash and size."""
    group = group_of(value_of(data))
    if group is None or not isinstance(group[1], LargeValue):
        return data
    return _LARGE + group[0].encode() + group[1].hash + group[1].size.to_bytes(_SIZE_BYTES, "big")


def _read_group(by: Attribute, data: bytes | int | None) -> Group:
    if data is None:
        return None
    if by == STATUS and isinstance(data, int):
        return "str", CELL_STATUSES[data]
    if isinstance(data, int):
        return "int", data
    if data.startswith(_LARGE):
        kind, reference = data[1 : -HASH_BYTES - _SIZE_BYTES], data[-HASH_BYTES - _SIZE_BYTES :]
        size = int.from_bytes(reference[HASH_BYTES:], "big")
        return kind.decode(), LargeValue(Hash(reference[:HASH_BYTES]), size)
    return group_of(value_of(data))
