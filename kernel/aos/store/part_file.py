"""A file that appears under its name only when it is whole (spec/bundle.md, B-20, B-21).

It is written as ``FILE.part``, which a lock makes ours, and gets its name when it is durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.errors import AosError, Refused, Unavailable
from aos.store.plain_files import PlainFolder

PART_SUFFIX: Final = ".part"


class FileTaken(Refused):
    """Something has the name already. Nothing was changed."""


def write_file(target: Path, data: bytes, *, mode: int = 0o600, force: bool = False) -> None:
    """Make a file that the user names: whole and durable, or not at all (ST-85).

    Raises:
        FileTaken: The file exists, and not ``force``.
        Unavailable: It cannot be written.
    """
    with PartFile(target, mode=mode, force=force) as part:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(part.fd, view) :]
        except OSError as error:
            raise part.failed(error) from error
        part.finish()


class PartFile(Closable):
    """An empty file to write through ``fd`` or ``path``. ``finish`` names it; ``close`` without
    that removes it."""

    def __init__(self, target: Path, *, mode: int = 0o600, force: bool = False) -> None:
        """Raises:
        FileTaken: ``target`` is there already, and not ``force``.
        Unavailable: The file cannot be made, or another process writes it.
        """
        self.target = target
        self.path = target.with_name(target.name + PART_SUFFIX)
        self._force = force
        self._check_free()
        self.fd = self._take(mode)

    def finish(self) -> None:
        """Make the file durable, and give it its name.

        Raises:
            FileTaken: The name was taken meanwhile.
            Unavailable: There is no room, or the file cannot be written.
        """
        try:
            os.fsync(self.fd)
            with PlainFolder.at_user_path(self.target.parent) as folder:
                self._name(folder)
                folder.sync()
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> AosError:
        """Return the error for a write that ``error`` ended."""
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        return Unavailable(
            f"{self.target}: the file cannot be written: {reason}; nothing was left behind"
        )

    def close(self) -> None:
        """Close the file, and remove it if it was not finished."""
        if self.fd < 0:
            return
        if _is_there(self.path, self.fd):
            with contextlib.suppress(OSError), PlainFolder.at_user_path(self.path.parent) as folder:
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
            raise self._name_taken_error() from None
        except OSError:
            # A file system without hard links.
            self._check_free()
            folder.rename(part, target)

    def _check_free(self) -> None:
        if not self._force and os.path.lexists(self.target):
            raise self._name_taken_error()

    def _name_taken_error(self) -> AosError:
        return FileTaken(
            "there is such a file already; nothing was changed",
            location=str(self.target),
            hint="--force replaces it",
        )

    def _take(self, mode: int) -> int:
        """Open the part, which is ours while its lock is: one that a killed process left is taken
        over."""
        try:
            while True:
                with PlainFolder.at_user_path(self.path.parent) as folder:
                    fd = folder.open(self.path.name, os.O_WRONLY | os.O_CREAT, mode)
                    try:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        # Its owner may have named it or taken it away before we had the lock.
                        if not _is_there(self.path, fd):
                            pass
                        elif os.fstat(fd).st_nlink > 1:
                            # Its owner was killed after it had named it, or it is not ours at all.
                            folder.remove(self.path.name)
                        else:
                            os.ftruncate(fd, 0)
                            os.fchmod(fd, os.fstat(fd).st_mode & mode)
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
