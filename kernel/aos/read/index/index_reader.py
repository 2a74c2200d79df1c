"""Answers from the index: which cells and records (spec/index.md, IX-40, IX-41).

Every list is a read of a range, or of a few that are merged. A page continues after the last
row of the page before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from aos.core.journal.records import CellId, EntryId
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.read.index.cell_pages import CellPages, TextOfKey
from aos.read.index.index_layout import (
    GONE,
    MINUTE_BYTES,
    NUMBER_BYTES,
    OF_MINUTES,
    PLACE_BYTES,
    IndexTable,
    StoredCell,
    after_prefix,
    number_key,
    number_of,
    place_key,
    record_key,
)
from aos.read.index.index_rows import IndexRows, prefixed
from aos.read.index.intent_pages import IntentPages
from aos.read.views.journal_view import KINDS
from aos.values.digests import Hash

_TOOK_RECORD_AT: Final = PLACE_BYTES + NUMBER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedCell:
    """A cell as the index has it. ``last_active_ns`` is the time of its last step, in ns."""

    id: CellId
    status: str
    last_active_ns: int
    number: int


class IndexReader(IntentPages):
    """The index at one moment. ``as_of`` is the last record that its rows are of."""

    def __init__(self, rows: IndexRows, as_of: int) -> None:
        super().__init__(rows)
        self.as_of = as_of

    def cell_pages(self, text_of: TextOfKey, check_time: Callable[[], None]) -> CellPages:
        """Lists of cells. ``text_of`` returns the text of a key that is no text; ``check_time`` is
        called for each cell that is looked at."""
        return CellPages(self._tables, text_of, check_time)

    # Records

    def naming(
        self, cell: CellId, *, first: int, last: int, is_reversed: bool = False
    ) -> Iterator[int]:
        """The records from ``first`` to ``last`` that name a cell (A-38), in ascending order, or
        ``is_reversed``."""
        number = self._tables.known_number(cell)
        if number is None:
            return
        key = number_key(number)
        low, high = key + record_key(first), key + record_key(last + 1)
        for touch_key, _ in self._rows.scan(IndexTable.TOUCH, low, high, is_reversed=is_reversed):
            yield number_of(touch_key[NUMBER_BYTES:])

    def latest_inputs(self, cell: CellId, limit: int) -> tuple[int, int]:
        """The record with which the latest ``limit`` inputs of a cell begin (A-45), and the number
        of the inputs in the records before it."""
        first, total = 1, None
        for seq, inputs in self._touches(cell):
            if total is None:
                total = inputs
            elif total - inputs >= limit:
                return first, inputs
            first = seq
        return first, 0

    def _touches(self, cell: CellId) -> Iterator[tuple[int, int]]:
        """The records that name a cell, the latest first, each with the number of its inputs up to
        there."""
        number = self._tables.known_number(cell)
        if number is None:
            return
        key = number_key(number)
        high = after_prefix(key)
        for touch_key, data in self._rows.scan(IndexTable.TOUCH, key, high, is_reversed=True):
            yield number_of(touch_key[NUMBER_BYTES:]), number_of(data)

    def taking(self, entry: EntryId) -> list[int]:
        """The steps and faults that took an entry of a mailbox, in ascending order."""
        rows = prefixed(self._rows, IndexTable.TOOK, place_key(entry))
        return sorted(number_of(key[_TOOK_RECORD_AT:]) for key, _ in rows)

    def versions(self) -> list[tuple[int, Hash]]:
        """The records of manifests with the hashes of their documents, the oldest first. Of a
        journal that was pruned, those in force at its beginning, and the later ones."""
        rows = self._rows.scan(IndexTable.VERSIONS, b"", None)
        return [(number_of(key), Hash(data)) for key, data in rows]

    # Cells

    def cell(self, id: CellId) -> IndexedCell | None:
        """A cell; None if there is none."""
        number = self._tables.known_number(id)
        row = None if number is None else self._tables.cell(number)
        if number is None or row is None or row.status == GONE:
            return None
        return self._indexed(number, row)

    def minutes(self, limit: int, last: int) -> dict[int, Counter[str]]:
        """The records of the latest ``limit`` minutes up to ``last`` that have some, by kind
        (IX-25)."""
        counts_by_minute: dict[int, Counter[str]] = {}
        high = OF_MINUTES + (last + 1).to_bytes(MINUTE_BYTES, "big")
        for key, data in self._rows.scan(IndexTable.TALLY, OF_MINUTES, high, is_reversed=True):
            minute = number_of(key[1 : 1 + MINUTE_BYTES])
            if minute not in counts_by_minute and len(counts_by_minute) == limit:
                break
            counts_by_minute.setdefault(minute, Counter())[KINDS[key[-1]]] = number_of(data)
        return counts_by_minute

    # Cells by number

    def _indexed(self, number: int, row: StoredCell) -> IndexedCell:
        return IndexedCell(
            id=(self._tables.name(row.word), row.key),
            status=CELL_STATUSES[row.status],
            last_active_ns=row.last_active_ns,
            number=number,
        )
