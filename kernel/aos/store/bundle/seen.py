"""The values that a bundle has already, in memory that does not grow (spec/bundle.md, B-9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from aos.errors import Unavailable, sentence
from aos.values.digests import Hash

ROWS_AT_ONCE: Final = 4096


class ValuePositions:
    """Values and where each was put, in a file without a name in the folder for temporary files: it
    is gone when we are."""

    def __init__(self) -> None:
        """Raises: Unavailable: The file cannot be made."""
        self._rows = sqlite3.connect("", isolation_level=None)
        try:
            self._rows.execute("CREATE TABLE rows (value BLOB PRIMARY KEY, at INT) WITHOUT ROWID")
            self._rows.execute("BEGIN")
        except BaseException:
            self._rows.close()
            raise

    def __contains__(self, value: Hash) -> bool:
        rows = self._rows.execute("SELECT 1 FROM rows WHERE value = ?", (value,))
        return rows.fetchone() is not None

    def add(self, value: Hash, at: int = 0) -> None:
        """Raises: Unavailable: There is no room for it."""
        try:
            self._rows.execute("INSERT INTO rows VALUES (?, ?)", (value, at))
        except sqlite3.OperationalError as error:
            raise Unavailable(
                sentence(
                    f"the folder for temporary files cannot be written: {error}",
                    hint="make room there, or name another with TMPDIR",
                )
            ) from error

    def __iter__(self) -> Iterator[tuple[Hash, int]]:
        """All of them, ascending."""
        rows = self._rows.execute("SELECT value, at FROM rows ORDER BY value")
        while some := rows.fetchmany(ROWS_AT_ONCE):
            for value, at in some:
                yield Hash(value), at

    def close(self) -> None:
        """Remove the temporary table."""
        self._rows.close()
