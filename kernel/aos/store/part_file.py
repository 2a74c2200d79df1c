"""A file that appears under its name only when it is whole (spec/bundle.md, B-20, B-21).

It is written as ``FILE.part``, which a lock makes ours, and gets its name when it is durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aos.errors import AosError, Refused, Unavailable, sentence
from aos.store.plain_files import PlainFolder

PART_SUFFIX: Final = ".part"


class PartFile:
    """An empty file to write through ``fd`` or ``path``. ``finish`` names it; ``close`` without
    that removes it."""

    def __init__(self, target: Path, *, force: bool = False) -> None:
        """Raises:
        Refused: ``target`` is there already, and not ``force``.
        Unavailable: The file cannot be made, or another process writes it.
        """
        self.target = target
        self.path = target.with_name(target.name + PART_SUFFIX)
        self._force = force
        self._check_free()
        self.fd = self._take()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def finish(self) -> None:
        """Make the file durable, and give it its name.

        Raises:
            Refused: The name was taken meanwhile.
            Unavailable: There is no room, or the file cannot be written.
        """
        try:
            os.fsync(self.fd)
            with PlainFolder.named(self.target.parent) as folder:
                self._name(folder)
                folder.sync()
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> AosError:
        """Return the error for a write that ``error`` ended."""
        why = (error.strerror if isinstance(error, OSError) else None) or error
        return Unavailable(
            f"{self.target}: the file cannot be written: {why}; nothing was left behind"
        )

    def close(self) -> None:
        """Close the file, and remove it if it was not finished."""
        if self.fd < 0:
            return
        if _is_there(self.path, self.fd):
            with contextlib.suppress(OSError), PlainFolder.named(self.path.parent) as folder:
                folder.remove(self.path.name)
        os.close(self.fd)
        self.fd = -1

    def _name(self, folder: PlainFolder) -> None:
        part, target = self.path.name, self.target.name
        if self._force:
            folder.rename(part, target)
            return
        try:
            # Unlike a rename, a link does not replace a file that another process made meanwhile.
            folder.link(part, target)
        except FileExistsError:
            raise self._taken() from None
        except OSError:
            # A file system without hard links.
            self._check_free()
            folder.rename(part, target)

    def _check_free(self) -> None:
        if not self._force and os.path.lexists(self.target):
            raise self._taken()

    def _taken(self) -> AosError:
        return Refused(
            sentence(
                "there is such a file already; nothing was changed",
                where=str(self.target),
                hint="--force replaces it",
            )
        )

    def _take(self) -> int:
        """Open the part, which is ours while its lock is: one that a killed process left is taken
        over."""
        try:
            while True:
                with PlainFolder.named(self.path.parent) as folder:
                    flags = os.O_WRONLY | os.O_CREAT
                    fd = folder.open(self.path.name, flags, is_sole=True)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Its owner may have named it or taken it away before we had the lock.
                    if _is_there(self.path, fd):
                        os.ftruncate(fd, 0)
                        return fd
                except BaseException:
                    os.close(fd)
                    raise
                os.close(fd)
        except BlockingIOError:
            raise Unavailable(
                f"{self.path}: another process writes this file (wait for it, or stop it)"
            ) from None
        except OSError as error:
            raise self.failed(error) from error


def _is_there(path: Path, fd: int) -> bool:
    """Whether ``path`` is the file that is open as ``fd``."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except OSError:
        return False
