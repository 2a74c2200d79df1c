"""The rows of an environment's tables, read a slice at a time (spec/store.md, ST-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from aos.errors import Damage
from aos.store.environment import Environment

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Table, Txn

SLICE_ROWS: Final = 1024
"""How many rows one read transaction copies at most (ST-6)."""

T = TypeVar("T")


class LmdbRows:
    """Reads rows in bounded transactions. ``check`` raises if the store is closed."""

    def __init__(self, environment: Environment, check: Callable[[], None]) -> None:
        self._environment = environment
        self._check = check

    def read(self, take: Callable[[Txn], T], *, views: bool = False) -> T:
        """As ``Environment.read``."""
        self._check()
        return self._environment.read(take, views=views)

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of one row; None if there is no such row."""
        return self.read(lambda txn: txn.get(key, db=self._environment.tables[table]))

    def has(self, table: str) -> bool:
        """Whether there is such a table. A missing one counts as empty (ST-10a)."""
        self._check()
        return self._environment.has_table(table)

    def scan(self, table: str, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows of a table, ascending, in one transaction per ``SLICE_ROWS`` (ST-6)."""
        if self.has(table):
            take = partial(self._slice, table=table, values=values)
            yield from self._slices(lambda start: self.read(partial(take, start=start)))

    def sizes(self, table: str) -> Iterator[tuple[bytes, int]]:
        """Yield the key of each row and the length of its value, without reading the value."""
        take = partial(self._slice_sizes, table=table)
        yield from self._slices(lambda start: self.read(partial(take, start=start), views=True))

    def decode_row(
        self,
        subject: str,
        read: Callable[[bytes], T],
        data: bytes,
        *,
        hint: str = "restore a backup",
    ) -> T:
        """Return ``read(data)``; ``Damage`` from it is raised again with ``subject`` and the place.

        ``hint`` is what to do about it."""
        try:
            return read(data)
        except Damage as error:
            location = self._environment.location
            raise Damage(f"{subject}: {error}", location=location, hint=hint) from error

    def _slices(self, take: Callable[[bytes], list[tuple[bytes, T]]]) -> Iterator[tuple[bytes, T]]:
        start = b"\0"
        while True:
            rows = take(start)
            yield from rows
            if len(rows) < SLICE_ROWS:
                return
            start = rows[-1][0] + b"\0"

    def _slice(
        self, txn: Txn, *, table: str, start: bytes, values: bool
    ) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        with txn.cursor(db=self._environment.tables[table]) as cursor:
            is_there = cursor.set_range(start)
            while is_there and len(rows) < SLICE_ROWS:
                key = cursor.key()
                self._ascends(table, start, key)
                rows.append((key, cursor.value() if values else b""))
                start = key + b"\0"
                is_there = cursor.next()
        return rows

    def _slice_sizes(self, txn: Txn, *, table: str, start: bytes) -> list[tuple[bytes, int]]:
        rows: list[tuple[bytes, int]] = []
        with txn.cursor(db=self._environment.tables[table]) as cursor:
            is_there = cursor.set_range(start)
            while is_there and len(rows) < SLICE_ROWS:
                key = bytes(cursor.key())
                self._ascends(table, start, key)
                rows.append((key, len(cursor.value())))
                start = key + b"\0"
                is_there = cursor.next()
        return rows

    def _ascends(self, table: str, least: bytes, key: bytes) -> None:
        """Check that keys ascend: a page in two places would make a scan endless (ST-17)."""
        if key < least:
            raise Damage(
                f"the rows of {table} are out of order at {key.hex()}",
                location=self._environment.location,
                hint="the store's file is damaged: restore a backup",
            )


def drop_rows(txn: Txn, table: Table, first: bytes, last: bytes, rows_max: int | None) -> int:
    """Remove the rows with keys ``first`` to ``last``, at most ``rows_max`` (None: all of them);
    return how many were removed."""
    count = 0
    with txn.cursor(db=table) as cursor:
        is_there = cursor.set_range(first)
        while is_there and cursor.key() <= last and count != rows_max:
            is_there = cursor.delete() and bool(cursor.key())
            count += 1
    return count
