"""Frames and values -> a bundle, there whole or not at all (spec/bundle.md, B-20 to B-24)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from blake3 import blake3

from aos.closable import Closable
from aos.core.journal.frame import Head
from aos.errors import Unavailable
from aos.store.bundle.items import (
    BLOB,
    END,
    ERASED,
    FRAME,
    HEAD,
    HEADER,
    INDEX,
    ROW_BYTES,
    BundleHeader,
    End,
    ErasedValue,
    item,
    opening,
    row,
)
from aos.store.part_file import PartFile
from aos.values.digests import Hash

ROWS_AT_ONCE: Final = 4096


class BundleWriter(Closable):
    """Writes ``FILE.part`` and gives it its name in ``finish``. Without that, leaving the block
    removes the part again (B-20, B-21).

    Memory does not grow with the bundle.
    """

    def __init__(self, target: Path, *, force: bool = False) -> None:
        """Raises:
        Refused: ``target`` is there already, and not ``force``.
        Unavailable: The file cannot be made, or another process writes it.
        """
        self._part = PartFile(target, force=force)
        self._digest = blake3()
        self.size = 0
        self.frames = 0
        self.blobs = 0
        self.erased = 0
        try:
            self._positions = ValuePositions()
        except BaseException:
            self._part.close()
            raise

    def close(self) -> None:
        """Give up what ``finish`` has not named."""
        self._positions.close()
        self._part.close()

    def header(self, header: BundleHeader) -> None:
        """Write the first item."""
        self._put(item(HEADER, header.to_bytes()))

    def frame(self, data: bytes) -> None:
        """Write the next frame of the journal."""
        self._put(item(FRAME, data))
        self.frames += 1

    def has(self, value: Hash, /) -> bool:
        """Whether a value was written, or listed as erased."""
        return value in self._positions

    def blob(self, value: Hash, data: bytes) -> None:
        """Write a value that was not written yet."""
        self._positions.add(value, self.size)
        self._put(opening(BLOB, len(data)))
        self._put(data)
        self.blobs += 1

    def erase(self, erased: ErasedValue) -> None:
        """List a value that cannot be written, because it was erased."""
        self._positions.add(erased.value, self.size)
        self._put(item(ERASED, erased.to_bytes()))
        self.erased += 1

    def finish(self, head: Head) -> None:
        """Write the head and the index, make everything durable, and give the file its name.

        Raises:
            Refused: The name was taken meanwhile.
            Unavailable: There is no room, or the file cannot be written.
        """
        head_at = self.size
        self._put(item(HEAD, head.to_bytes()))
        index_at = self.size
        self._put(opening(INDEX, ROW_BYTES * (self.blobs + self.erased)))
        rows = iter(self._positions)
        while some := b"".join(row(*position) for position in islice(rows, ROWS_AT_ONCE)):
            self._put(some)
        end = End(head_at=head_at, index_at=index_at, digest=self._digest.digest())
        self._put(item(END, end.to_bytes()))
        self._part.finish()

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._part.fd, view) :]
        except OSError as error:
            raise self._part.failed(error) from error
        self._digest.update(data)
        self.size += len(data)


class ValuePositions:
    """The values that a bundle has already, and where each was put, in memory that does not grow
    (spec/bundle.md, B-9): a file without a name in the folder for temporary files, which is gone
    when the process ends."""

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
                f"the folder for temporary files cannot be written: {error}",
                hint="make room there, or name another with TMPDIR",
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
