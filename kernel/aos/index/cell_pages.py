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

from aos.audit.search.attributes import OF_EVERY_CELL, Attribute
from aos.audit.search.counting import CountedCells, Group, ranked
from aos.audit.search.finder import CellPage, CellQuery
from aos.audit.search.matching import CombinedCondition
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.index.index_layout import (
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
from aos.index.index_rows import prefixed
from aos.index.index_tables import IndexTables
from aos.values.cbor import head as cbor_head

_TEXT: Final = 0x60
_AFTER_TEXTS: Final = 0x80
"""The first byte of a text in CBOR without its length, and the first one of greater values."""

_GROUP_BYTES: Final = WORD_BYTES + 1

TextOfKey: TypeAlias = Callable[[CellId], str]

Placed: TypeAlias = tuple[int, str, bytes, int]
"""Where a cell comes in a list: its place, its workflow and its key; then its number."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query that the index answers. ``sign`` is 1 for the cells that did nothing for the longest
    time first, -1 for the opposite, 0 for the order of keys."""

    workflow: str | None
    status: str | None
    prefix: str | None
    sign: int
    after: tuple[int, str, bytes] | None


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
        asked = _asked(query)
        if asked is None:
            return None
        groups = self._groups(asked)
        if asked.prefix is None:
            total, reasons = self._tallied(groups)
            placed: Iterable[Placed] = self._listed(groups, asked)
        else:
            placed, total, reasons = self._beginning(groups, asked)
        if offset >= total:  # perhaps more than can be counted
            return CellPage([], total, reasons)
        shown = list(islice(_after(placed, asked.after), offset, offset + limit))
        return CellPage([(name, key) for _, name, key, _ in shown], total, reasons)

    def count(self, query: CellQuery, by: Attribute | None, most: int) -> CountedCells | None:
        """See ``CellFinder``: None for conditions on more than status and key, and for groups by
        more than status."""
        asked = _asked(query)
        if asked is None or by not in (None, OF_EVERY_CELL["status"]):
            return None
        numbers = Counter[Group]()
        for name, group in self._groups(asked):
            status = ("str", CELL_STATUSES[group[-1]])
            if asked.prefix is None:
                tallied = self._rows.get(IndexTable.TALLY, OF_CELLS + group)
                numbers[status] += 0 if tallied is None else number_of(tallied)
            else:
                for _ in self._begins(name, group, asked.prefix):
                    self._check_time()
                    numbers[status] += 1
        numbers += Counter()  # without statuses that no cell has
        return ranked(numbers.total(), numbers if by is not None else {}, most)

    def _groups(self, asked: _Asked) -> list[tuple[str, bytes]]:
        """The workflows with the beginning of the rows of each of their statuses."""
        return [
            (name, word.to_bytes(WORD_BYTES, "big") + bytes([status]))
            for name, word in self._tables.words()
            if asked.workflow in (None, name)
            for status, text in enumerate(CELL_STATUSES)
            if asked.status in (None, text)
        ]

    def _tallied(self, groups: Sequence[tuple[str, bytes]]) -> tuple[int, Counter[str]]:
        known, total = {group for _, group in groups}, 0
        for key, data in prefixed(self._rows, IndexTable.TALLY, OF_CELLS):
            if key[1:] in known:
                total += number_of(data)
        reasons: Counter[str] = Counter()
        for key, data in prefixed(self._rows, IndexTable.TALLY, OF_REASONS):
            if key[1 : 1 + _GROUP_BYTES] in known:
                reasons[self._tables.name(number_of(key[1 + _GROUP_BYTES :]))] += number_of(data)
        return total, reasons

    # Whole lists

    def _listed(self, groups: Sequence[tuple[str, bytes]], asked: _Asked) -> Iterator[Placed]:
        found = [self._of_group(name, group, asked) for name, group in groups]
        return heapq.merge(*found)

    def _of_group(self, name: str, group: bytes, asked: _Asked) -> Iterator[Placed]:
        after = asked.after
        if asked.sign == 0:
            if after is not None and name < after[1]:
                return
            least = after[2][:CUT_BYTES] if after is not None and name == after[1] else b""
            rows = self._rows.scan(IndexTable.BY_KEY, group + least, after_prefix(group))
            for key, number in self._in_order(rows, _GROUP_BYTES):
                yield 0, name, key, number
            return
        moments = self._oldest(group, after) if asked.sign > 0 else self._latest(group, after)
        for ns in moments:
            start = group + ns
            rows = self._rows.scan(IndexTable.BY_ACTIVITY, start, after_prefix(start))
            for key, number in self._in_order(rows, len(start)):
                yield asked.sign * number_of(ns), name, key, number

    def _oldest(self, group: bytes, after: tuple[int, str, bytes] | None) -> Iterator[bytes]:
        """The times of last activities, in ascending order, from that of ``after`` on."""
        end = after_prefix(group)
        low: bytes | None = group + (b"" if after is None else _ns(after[0]))
        while low is not None:
            found = next(self._rows.scan(IndexTable.BY_ACTIVITY, low, end), None)
            if found is None:
                return
            moment = found[0][: _GROUP_BYTES + NS_BYTES]
            yield moment[_GROUP_BYTES:]
            low = after_prefix(moment)

    def _latest(self, group: bytes, after: tuple[int, str, bytes] | None) -> Iterator[bytes]:
        """The same in descending order."""
        high = after_prefix(group if after is None else group + _ns(-after[0]))
        while True:
            rows = self._rows.scan(IndexTable.BY_ACTIVITY, group, high, is_reversed=True)
            found = next(rows, None)
            if found is None:
                return
            high = found[0][: _GROUP_BYTES + NS_BYTES]
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
                    (self._whole(key[order_at:], number_of(data)), number_of(data))
                    for key, data in some
                )

    def _whole(self, order: bytes, number: int) -> bytes:
        self._check_time()
        return order if len(order) < ORDER_BYTES_MAX else self._tables.cell(number).key

    # The beginning of a key

    def _beginning(
        self, groups: Sequence[tuple[str, bytes]], asked: _Asked
    ) -> tuple[list[Placed], int, Counter[str]]:
        """The cells whose keys begin so, in order, with their number and their reasons."""
        assert asked.prefix is not None
        found: list[Placed] = []
        words: Counter[int] = Counter()
        for name, group in groups:
            for key, number in self._begins(name, group, asked.prefix):
                self._check_time()
                row = self._tables.cell(number)
                words.update(row.reasons)
                found.append((asked.sign * row.last_active_ns, name, key, number))
        found.sort()
        reasons: Counter[str] = Counter()
        for word, count in words.items():
            reasons[self._tables.name(word)] += count
        return found, len(found), reasons

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
            found = next(self._rows.scan(IndexTable.BY_KEY, longer, end), None)
            if found is None:
                return
            length = _text_length(found[0][_GROUP_BYTES:])


def _asked(query: CellQuery) -> _Asked | None:
    if query.by_text:
        return None
    given: dict[str, str] = {}
    for each in query.conditions:
        if isinstance(each, CombinedCondition):
            return None
        is_known = (each.attribute, each.operator) in (
            (OF_EVERY_CELL["status"], "="),
            (OF_EVERY_CELL["key"], "^="),
        )
        [value, *more] = each.values or (None,)
        if not is_known or more or not isinstance(value, str) or each.operator in given:
            return None
        given[each.operator] = value
    if query.order not in (None, OF_EVERY_CELL["last_active"]):
        return None
    after = None if query.after is None else (query.after[0], *query.after[1])
    sign = 0 if query.order is None else -1 if query.is_descending else 1
    return _Asked(query.workflow, given.get("="), given.get("^="), sign, after)


def _after(placed: Iterable[Placed], after: tuple[int, str, bytes] | None) -> Iterator[Placed]:
    for each in placed:
        if after is None or each[:3] > after:
            yield each


def _ns(number: int) -> bytes:
    found: int = min(max(number, 0), NS_MAX)
    return found.to_bytes(NS_BYTES, "big")


def _text_length(key: bytes) -> int:
    """The length of the text that a canonical key begins with."""
    short = key[0] - _TEXT
    return short if short < 24 else number_of(key[1 : 1 + (1 << short - 24)])
