"""The names and cells of the index by their numbers, and its counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from aos.core.journal.records import CellId
from aos.errors import Unavailable
from aos.read.index.index_layout import (
    COUNT_BYTES,
    GONE,
    WORD_BYTES,
    WORDS_MAX,
    IndexTable,
    StoredCell,
    number_key,
    number_of,
    order_key,
)
from aos.read.index.index_rows import IndexRows, last_number

NUMBERS_KEPT: Final = 65_536
"""Numbers of cells that are remembered, so that not every record looks them up."""


class IndexTables:
    """The tables of the index within one transaction, with what is looked up often.

    The number of a cell is given once and stays, also when the cell is deleted: its past has rows.
    """

    def __init__(self, rows: IndexRows) -> None:
        self.rows = rows
        self._numbers: dict[CellId, int] = {}
        self._counts: Counter[bytes] = Counter()
        self._cells: int | None = None
        self._last_number: int | None = None
        self._names = {
            number_of(key): value.decode() for key, value in rows.scan(IndexTable.WORDS, b"", None)
        }
        self._words = {name: word for word, name in self._names.items()}

    # Names

    def name(self, word: int) -> str:
        """The name of a workflow or effect."""
        return self._names[word]

    def word(self, name: str) -> int:
        """The number of a name, which is given now if it has none.

        Raises:
            Unavailable: There are more names than numbers.
        """
        number = self._words.get(name)
        if number is None:
            number = len(self._words) + 1
            if number > WORDS_MAX:
                raise Unavailable(f"a journal with more than {WORDS_MAX} names has no index")
            self.rows.put(IndexTable.WORDS, number.to_bytes(WORD_BYTES, "big"), name.encode())
            self._words[name], self._names[number] = number, name
        return number

    def words(self) -> Iterator[tuple[str, int]]:
        """All names with their numbers, by name."""
        yield from sorted(self._words.items())

    # Cells

    def number(self, id: CellId) -> int:
        """The number of a cell, which is given now if it has none."""
        number = self._numbers.get(id) or self.known_number(id)
        if number is None:
            if self._cells is None:
                self._cells = self._last_number = last_number(self.rows)
            number = self._cells = self._cells + 1
            word = self.word(id[0])
            row = StoredCell(status=GONE, last_active_ns=0, word=word, key=id[1])
            self.rows.put(IndexTable.CELLS, number_key(number), row.to_bytes())
            self.rows.put(IndexTable.KEYS, _key(word, id[1]), number_key(number))
        if len(self._numbers) >= NUMBERS_KEPT:
            self._numbers.clear()
        self._numbers[id] = number
        return number

    def is_new(self, number: int) -> bool:
        """Whether the number was given in this transaction."""
        return self._last_number is not None and number > self._last_number

    def known_number(self, id: CellId) -> int | None:
        """The number of a cell; None if no record names it."""
        word = self._words.get(id[0])
        data = None if word is None else self.rows.get(IndexTable.KEYS, _key(word, id[1]))
        return None if data is None else number_of(data)

    def cell(self, number: int) -> StoredCell:
        """The row of a cell."""
        data = self.rows.get(IndexTable.CELLS, number_key(number))
        assert data is not None, f"cell {number} has a number and no row"
        return StoredCell.from_bytes(data)

    # Counts

    def count(self, key: bytes, change: int) -> None:
        """Add to a count, which ``finish`` writes."""
        self._counts[key] += change

    def finish(self) -> None:
        """Write the counts, which many records and cells share. A count of 0 has no row."""
        for key, change in self._counts.items():
            if not change:
                continue
            previous = self.rows.get(IndexTable.TALLY, key)
            total = change + (0 if previous is None else number_of(previous))
            if total:
                self.rows.put(IndexTable.TALLY, key, total.to_bytes(COUNT_BYTES, "big"))
            else:
                self.rows.delete(IndexTable.TALLY, key)
        self._counts.clear()


def _key(word: int, key: bytes) -> bytes:
    return word.to_bytes(WORD_BYTES, "big") + order_key(key)
