"""Write the files of a header log (spec/proofs.md, PF-25 to PF-29).

DIR/log/.lock             held while one process extends the log
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Final

from aos.audit.headerlog.stored_log import CHECKPOINT, OUTSIDE, TIMESTAMP, StoredLog
from aos.audit.headerlog.tiles import Tile
from aos.errors import Unavailable
from aos.store.plain_files import PlainFolder

_LOCK: Final = ".lock"


class LogFolder(StoredLog):
    """An open folder of a header log. A file is there whole or not at all."""

    def put_tile(self, tile: Tile, data: bytes) -> None:
        """Write a tile. ``sync`` makes its name durable."""
        *folders, name = tile.path
        self._put(self._open(tuple(folders), make=True), name, data)

    def sync(self) -> None:
        """Make the names of everything that was put durable."""
        for folder in (*self._inner.values(), self._folder):
            folder.sync()

    def put_checkpoint(self, note: bytes, timestamp: bytes | None) -> None:
        """Replace the checkpoint, durably. The tiles must be durable."""
        if timestamp is None:
            self._folder.remove(TIMESTAMP)
        else:
            self._put(self._folder, TIMESTAMP, timestamp)
        self._put(self._folder, CHECKPOINT, note)
        self._folder.sync()

    def put_outside(self, data: bytes) -> None:
        """Replace the note of the last checkpoint that was kept outside, durably."""
        self._put(self._folder, OUTSIDE, data)
        self._folder.sync()

    def drop_partial(self, tile: Tile) -> None:
        """Remove the partial tiles that a full one replaces."""
        *folders, name = tile.path
        folder = self._open(tuple(folders))
        partial = f"{name}.p"
        if folder is None or not tile.is_full or folder.find(partial) is None:
            return
        with folder.inner(partial) as inner:
            for file_name in list(inner.names()):
                inner.remove(file_name)
        with contextlib.suppress(OSError):
            folder.remove_folder(partial)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Extend the log alone, until the block ends.

        Raises:
            Unavailable: Another process extends it now.
        """
        fd = self._folder.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(
                    f"{self.path}: another process makes a checkpoint now (try again)"
                ) from None
            yield
        finally:
            os.close(fd)

    def _put(self, folder: PlainFolder | None, name: str, data: bytes) -> None:
        assert folder is not None
        try:
            if _is_same(folder, name, data):
                return
            folder.put(name, data, 0o644)
        except OSError as problem:
            raise Unavailable(
                f"{folder.path / name}: the header log cannot be written: {problem.strerror}"
            ) from problem


def _is_same(folder: PlainFolder, name: str, data: bytes) -> bool:
    """Whether the file is there with this content: a tile never changes."""
    status = folder.check_file(name)
    return (
        status is not None and status.st_size == len(data) and folder.read(name, len(data)) == data
    )
