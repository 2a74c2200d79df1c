"""Pages of cells by key, by the beginning of a key, by status and by last activity
(spec/index.md, IX-41).

    by key        for each workflow and status one range of ``by_key``, merged
    by activity   for each workflow and status one range of ``by_activity``, merged
    a beginning   for each length of a text one range of ``by_key``

Counts come from ``tally``, except those of a beginning, for which each of its cells is looked at.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final, TypeAlias

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.read.index.index_layout import (
    CUT_BYTES,
    NS_BYTES,
    NS_MAX,
    OF_CELLS,
    OF_REASONS,
    ORDER_BYTES_MAX,
    WORD_BYTES,
    IndexTable,
    after_prefix,
    number_of,
)
from aos.read.index.index_rows import prefixed
from aos.read.index.index_tables import IndexTables
from aos.read.where.attributes import OF_EVERY_CELL, Attribute
from aos.read.where.counting import CountedCells, Group, ranked
from aos.read.where.matching import CellPage, CellQuery, CombinedCondition
from aos.values.cbor import head as cbor_head

_TEXT: Final = 0x60
_AFTER_TEXTS: Final = 0x80
"""The first byte of a text in CBOR without its length, and the first one of greater values."""

_GROUP_BYTES: Final = WORD_BYTES + 1

TextOfKey: TypeAlias = Callable[[CellId], str]

Placed: TypeAlias = tuple[int, str, bytes, int]
"""Where a cell comes in a list: its place, its workflow and its key; then its number."""


@dataclass(frozen=True, slots=True)
class _IndexQuery:
    """A query that the index answers. ``sign`` is 1 for the cells that did nothing for the longest
    time first, -1 for the opposite, 0 for the order of keys."""

    workflow: str | None
    status: str | None
    prefix: str | None
    sign: int
    cursor: tuple[int, str, bytes] | None


class CellPages:
    """Answers queries for cells from the index at one moment (a ``CellFinder``)."""

    def __init__(
        self, tables: IndexTables, text_of: TextOfKey, check_time: Callable[[], None]
    ) -> None:
        self._tables = tables
        self._rows = tables.rows
        self._text_of = text_of
        self._check_time = check_time

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage | None:
        """See ``CellFinder``: None for conditions on more than status and key, and for another
        order."""
        index_query = _index_query(query)
        if index_query is None:
            return None
        groups = self._groups(index_query)
        if index_query.prefix is None:
            total, reasons = self._tallied(groups)
            placed: Iterable[Placed] = self._merged_cells(groups, index_query)
        else:
            placed, total, reasons = self._beginning(groups, index_query)
        if offset >= total:  # perhaps more than can be counted
            return CellPage([], total, reasons)
        page_rows = list(islice(_after_cursor(placed, index_query.cursor), offset, offset + limit))
        return CellPage([(name, key) for _, name, key, _ in page_rows], total, reasons)

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells | None:
        """See ``CellFinder``: None for conditions on more than status and key, and for groups by
        more than status."""
        index_query = _index_query(query)
        if index_query is None or by not in (None, OF_EVERY_CELL["status"]):
            return None
        numbers = Counter[Group]()
        for name, group in self._groups(index_query):
            status = ("str", CELL_STATUSES[group[-1]])
            if index_query.prefix is None:
                tallied = self._rows.get(IndexTable.TALLY, OF_CELLS + group)
                numbers[status] += 0 if tallied is None else number_of(tallied)
            else:
                for _ in self._begins(name, group, index_query.prefix):
                    self._check_time()
                    numbers[status] += 1
        numbers += Counter()  # without statuses that no cell has
        return ranked(numbers.total(), numbers if by is not None else {}, limit)

    def _groups(self, index_query: _IndexQuery) -> list[tuple[str, bytes]]:
        """The workflows with the beginning of the rows of each of their statuses."""
        return [
            (name, word.to_bytes(WORD_BYTES, "big") + bytes([status]))
            for name, word in self._tables.words()
            if index_query.workflow in (None, name)
            for status, text in enumerate(CELL_STATUSES)
            if index_query.status in (None, text)
        ]

    def _tallied(self, groups: Sequence[tuple[str, bytes]]) -> tuple[int, Counter[str]]:
        group_keys, total = {group for _, group in groups}, 0
        for key, data in prefixed(self._rows, IndexTable.TALLY, OF_CELLS):
            if key[1:] in group_keys:
                total += number_of(data)
        reasons: Counter[str] = Counter()
        for key, data in prefixed(self._rows, IndexTable.TALLY, OF_REASONS):
            if key[1 : 1 + _GROUP_BYTES] in group_keys:
                reasons[self._tables.name(number_of(key[1 + _GROUP_BYTES :]))] += number_of(data)
        return total, reasons

    # Whole lists

    def _merged_cells(
        self, groups: Sequence[tuple[str, bytes]], index_query: _IndexQuery
    ) -> Iterator[Placed]:
        cells_by_group = [self._of_group(name, group, index_query) for name, group in groups]
        return heapq.merge(*cells_by_group)

    def _of_group(self, name: str, group: bytes, index_query: _IndexQuery) -> Iterator[Placed]:
        cursor = index_query.cursor
        if index_query.sign == 0:
            if cursor is not None and name < cursor[1]:
                return
            least = cursor[2][:CUT_BYTES] if cursor is not None and name == cursor[1] else b""
            rows = self._rows.scan(IndexTable.BY_KEY, group + least, after_prefix(group))
            for key, number in self._in_order(rows, _GROUP_BYTES):
                yield 0, name, key, number
            return
        moments = (
            self._oldest(group, cursor) if index_query.sign > 0 else self._latest(group, cursor)
        )
        for ns in moments:
            start = group + ns
            rows = self._rows.scan(IndexTable.BY_ACTIVITY, start, after_prefix(start))
            for key, number in self._in_order(rows, len(start)):
                yield index_query.sign * number_of(ns), name, key, number

    def _oldest(self, group: bytes, cursor: tuple[int, str, bytes] | None) -> Iterator[bytes]:
        """The times of last activities, in ascending order, from that of ``cursor`` on."""
        end = after_prefix(group)
        low: bytes | None = group + (b"" if cursor is None else _ns(cursor[0]))
        while low is not None:
            row = next(self._rows.scan(IndexTable.BY_ACTIVITY, low, end), None)
            if row is None:
                return
            moment = row[0][: _GROUP_BYTES + NS_BYTES]
            yield moment[_GROUP_BYTES:]
            low = after_prefix(moment)

    def _latest(self, group: bytes, cursor: tuple[int, str, bytes] | None) -> Iterator[bytes]:
        """The same in descending order."""
        high = after_prefix(group if cursor is None else group + _ns(-cursor[0]))
        while True:
            rows = self._rows.scan(IndexTable.BY_ACTIVITY, group, high, is_reversed=True)
            row = next(rows, None)
            if row is None:
                return
            high = row[0][: _GROUP_BYTES + NS_BYTES]
            yield high[_GROUP_BYTES:]

    def _in_order(
        self, rows: Iterable[tuple[bytes, bytes]], order_at: int
    ) -> Iterator[tuple[bytes, int]]:
        """Rows whose keys end with an order → whole keys of cells in their order, and numbers. Of
        keys that are too long for the index, those that begin alike are sorted here (IX-41)."""
        for begins, some in groupby(rows, lambda row: row[0][: order_at + CUT_BYTES]):
            if len(begins) < order_at + CUT_BYTES:
                for key, data in some:
                    yield key[order_at:], number_of(data)
            else:
                yield from sorted(
                    (self._full_key(key[order_at:], number_of(data)), number_of(data))
                    for key, data in some
                )

    def _full_key(self, order: bytes, number: int) -> bytes:
        self._check_time()
        return order if len(order) < ORDER_BYTES_MAX else self._tables.cell(number).key

    # The beginning of a key

    def _beginning(
        self, groups: Sequence[tuple[str, bytes]], index_query: _IndexQuery
    ) -> tuple[list[Placed], int, Counter[str]]:
        """The cells whose keys begin so, in order, with their number and their reasons."""
        assert index_query.prefix is not None
        placed: list[Placed] = []
        words: Counter[int] = Counter()
        for name, group in groups:
            for key, number in self._begins(name, group, index_query.prefix):
                self._check_time()
                row = self._tables.cell(number)
                words.update(row.reasons)
                placed.append((index_query.sign * row.last_active_ns, name, key, number))
        placed.sort()
        reasons: Counter[str] = Counter()
        for word, count in words.items():
            reasons[self._tables.name(word)] += count
        return placed, len(placed), reasons

    def _begins(self, name: str, group: bytes, prefix: str) -> Iterator[tuple[bytes, int]]:
        """The keys of one workflow and status whose text begins so, in any order."""
        yield from self._texts(group, prefix)
        for low, high in (
            (group, group + bytes([_TEXT])),
            (group + bytes([_AFTER_TEXTS]), after_prefix(group)),
        ):
            for key, number in self._in_order(
                self._rows.scan(IndexTable.BY_KEY, low, high), _GROUP_BYTES
            ):
                self._check_time()
                if self._text_of((name, key)).startswith(prefix):
                    yield key, number

    def _texts(self, group: bytes, prefix: str) -> Iterator[tuple[bytes, int]]:
        # Canonical keys begin with their length, so texts with one beginning are in a range for
        # each length. From the end of a range the next length that there is follows.
        text = prefix.encode(errors="surrogatepass")
        end = group + bytes([_AFTER_TEXTS])
        length = len(text)
        while True:
            start = cbor_head(_TEXT, length) + text
            low = group + start[:CUT_BYTES]
            rows = self._rows.scan(IndexTable.BY_KEY, low, after_prefix(low))
            for key, number in self._in_order(rows, _GROUP_BYTES):
                if key.startswith(start):
                    yield key, number
            longer = group + cbor_head(_TEXT, length + 1)
            row = next(self._rows.scan(IndexTable.BY_KEY, longer, end), None)
            if row is None:
                return
            length = _text_length(row[0][_GROUP_BYTES:])


def _index_query(query: CellQuery) -> _IndexQuery | None:
    if query.by_text:
        return None
    operands: dict[str, str] = {}
    for condition in query.conditions:
        if isinstance(condition, CombinedCondition):
            return None
        is_known = (condition.attribute, condition.operator) in (
            (OF_EVERY_CELL["status"], "="),
            (OF_EVERY_CELL["key"], "^="),
        )
        [value, *other_values] = condition.values or (None,)
        if (
            not is_known
            or other_values
            or not isinstance(value, str)
            or condition.operator in operands
        ):
            return None
        operands[condition.operator] = value
    if query.order not in (None, OF_EVERY_CELL["last_active"]):
        return None
    cursor = (
        None
        if query.after_position is None
        else (query.after_position[0], *query.after_position[1])
    )
    sign = 0 if query.order is None else -1 if query.is_descending else 1
    return _IndexQuery(query.workflow, operands.get("="), operands.get("^="), sign, cursor)


def _after_cursor(
    placed: Iterable[Placed], cursor: tuple[int, str, bytes] | None
) -> Iterator[Placed]:
    for row in placed:
        if cursor is None or row[:3] > cursor:
            yield row


def _ns(number: int) -> bytes:
    clamped: int = min(max(number, 0), NS_MAX)
    return clamped.to_bytes(NS_BYTES, "big")


def _text_length(key: bytes) -> int:
    """The length of the text that a canonical key begins with."""
    short = key[0] - _TEXT
    return short if short < 24 else number_of(key[1 : 1 + (1 << short - 24)])
