"""The rows of the index, in its file or in memory above it (spec/index.md, IX-30, IX-44)."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Protocol

from aos.read.index.index_layout import NUMBER_BYTES, IndexTable, after_prefix, number_of
from aos.store.lmdb_binding import Table as LmdbTable
from aos.store.lmdb_binding import Txn

SUM_MODULUS = 1 << 64


def row_sum(table: IndexTable, key: bytes, value: bytes) -> int:
    """The number that a row adds to the checksum of the index (IX-30)."""
    return zlib.crc32(value, zlib.crc32(key, table)) + 1


class IndexRows(Protocol):
    """The tables of the index as ordered maps."""

    def get(self, table: IndexTable, key: bytes) -> bytes | None: ...

    def put(self, table: IndexTable, key: bytes, value: bytes = b"") -> None: ...

    def delete(self, table: IndexTable, key: bytes) -> None: ...

    def scan(
        self, table: IndexTable, low: bytes, high: bytes | None, *, is_reversed: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows from key ``low`` to before key ``high``, or to the end of the table. The
        table must not change meanwhile."""
        ...


def prefixed(
    rows: IndexRows, table: IndexTable, prefix: bytes, *, is_reversed: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose keys begin with ``prefix``."""
    return rows.scan(table, prefix, after_prefix(prefix), is_reversed=is_reversed)


def last_number(rows: IndexRows) -> int:
    """The number of the cell that was named first most recently; 0 without a cell."""
    row = next(rows.scan(IndexTable.CELLS, b"", None, is_reversed=True), None)
    return 0 if row is None else number_of(row[0][:NUMBER_BYTES])


class FileRows:
    """The rows in one transaction of LMDB. ``sum`` is the checksum of all rows after its changes.
    Every method may raise ``lmdb.Error``."""

    def __init__(self, txn: Txn, tables: Mapping[IndexTable, LmdbTable], sum: int) -> None:
        self._txn = txn
        self._tables = tables
        self.sum = sum

    def get(self, table: IndexTable, key: bytes) -> bytes | None:
        """The row with this key."""
        return self._txn.get(key, db=self._tables[table])

    def count(self, table: IndexTable) -> int:
        """The number of rows of a table."""
        entries: int = self._txn.stat(self._tables[table])["entries"]
        return entries

    def put(self, table: IndexTable, key: bytes, value: bytes = b"") -> None:
        """Store a row, in the place of the one with this key."""
        previous = self._txn.replace(key, value, db=self._tables[table])
        change = row_sum(table, key, value)
        if previous is not None:
            change -= row_sum(table, key, previous)
        self.sum = (self.sum + change) % SUM_MODULUS

    def delete(self, table: IndexTable, key: bytes) -> None:
        """Remove the row with this key, if there is one."""
        previous = self._txn.pop(key, db=self._tables[table])
        if previous is not None:
            self.sum = (self.sum - row_sum(table, key, previous)) % SUM_MODULUS

    def scan(
        self, table: IndexTable, low: bytes, high: bytes | None, *, is_reversed: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As ``IndexRows.scan``."""
        with self._txn.cursor(db=self._tables[table]) as cursor:
            if is_reversed:
                is_there = cursor.last() if high is None or not cursor.set_range(high) else (
                    cursor.prev()
                )  # fmt: skip
                while is_there and cursor.key() >= low:
                    yield cursor.item()
                    is_there = cursor.prev()
                return
            is_there = cursor.set_range(low) if low else cursor.first()
            while is_there and (high is None or cursor.key() < high):
                yield cursor.item()
                is_there = cursor.next()


class RowsInMemory:
    """Changes that are kept in memory, above rows that they do not change."""

    def __init__(self, below: IndexRows) -> None:
        self._below = below
        self._changed: dict[IndexTable, dict[bytes, bytes | None]] = {
            table: {} for table in IndexTable
        }
        self._sorted: dict[IndexTable, list[bytes]] = {}

    def get(self, table: IndexTable, key: bytes) -> bytes | None:
        """The row with this key."""
        changed = self._changed[table]
        return changed[key] if key in changed else self._below.get(table, key)

    def put(self, table: IndexTable, key: bytes, value: bytes = b"") -> None:
        """Store a row, in the place of the one with this key."""
        self._change(table, key, value)

    def delete(self, table: IndexTable, key: bytes) -> None:
        """Remove the row with this key, if there is one."""
        self._change(table, key, None)

    def _change(self, table: IndexTable, key: bytes, value: bytes | None) -> None:
        if key not in self._changed[table]:
            self._sorted.pop(table, None)
        self._changed[table][key] = value

    def _keys(self, table: IndexTable) -> list[bytes]:
        if table not in self._sorted:
            self._sorted[table] = sorted(self._changed[table])
        return self._sorted[table]

    def scan(
        self, table: IndexTable, low: bytes, high: bytes | None, *, is_reversed: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As ``IndexRows.scan``."""
        changed, keys = self._changed[table], self._keys(table)
        first = bisect_left(keys, low)
        last = len(keys) if high is None else bisect_left(keys, high)
        above = iter(keys[first:last][::-1] if is_reversed else keys[first:last])
        below = self._below.scan(table, low, high, is_reversed=is_reversed)
        key, row = next(above, None), next(below, None)
        while key is not None or row is not None:
            if row is None or (key is not None and _is_before(key, row[0], is_reversed)):
                assert key is not None
                value = changed[key]
                if value is not None:
                    yield key, value
                key = next(above, None)
            elif key == row[0]:
                row = next(below, None)
            else:
                yield row
                row = next(below, None)


def _is_before(key: bytes, other_key: bytes, is_reversed: bool) -> bool:
    return key > other_key if is_reversed else key < other_key
