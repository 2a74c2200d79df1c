"""The one door to a world's files: plain files in plain folders (spec/store.md, ST-80 to ST-84).

A world's folder may come from someone else, so that each name in it can be a symbolic link to a
file that is not part of the world, or a FIFO that blocks its reader. Every file of a world is
therefore opened here: relative to a descriptor of its folder, never through a link, and only if it
is a regular file.

    world, which the user names (may be a link)  -> PlainFolder.named
    store, keys, packs, archives (may not)       -> PlainFolder.inner, PlainFolder.at
    a file that the user names (may be a link)   -> open_named

Rule 1: anything that is not plain is ``Damage`` with its path and kind. It is not changed.

Rule 2: opening a file never truncates it. A hard link is a second name for bytes that may not be
ours: with ``is_sole``, a file that has another name is refused before it is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from aos.closable import Closable
from aos.errors import Damage

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PART: Final = ".part"
_FORMER: Final = ".former"
_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of Linux."""

_HINT: Final = "put the real one there, or restore a backup"

_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, "a file"),
)


class PlainFolder(Closable):
    """An open folder of a world, until it is closed. A name is one component of a path.

    Methods raise ``FileNotFoundError`` where nothing has that name, and any other ``OSError`` as
    the system reports it.
    """

    def __init__(self, path: Path, fd: int) -> None:
        """Use ``at_user_path``, ``at`` or ``inner``."""
        self.path = path
        self._fd = fd

    @classmethod
    def at_user_path(cls, path: Path) -> Self:
        """Open a folder that the user names, through links if there are any."""
        return cls(path, os.open(path, _FOLDER))

    @classmethod
    def at(cls, path: Path) -> Self:
        """Open a folder that is part of a world by its path: its own name may not be a link.

        Raises:
            Damage: It is no plain folder.
        """
        try:
            return cls(path, os.open(path, _FOLDER | os.O_NOFOLLOW))
        except OSError:
            with contextlib.suppress(OSError):
                _check_folder(path, os.lstat(path))
            raise

    def inner(self, name: str, *, make: bool = False) -> PlainFolder:
        """Open a folder in this one. With ``make`` it is made, for its owner alone, if nothing has
        that name.

        Raises:
            Damage: It is no plain folder.
        """
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._fd)
        path = self.path / name
        try:
            return PlainFolder(path, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._fd))
        except FileNotFoundError:
            raise
        except OSError:
            status = self.find(name)
            if status is not None:
                _check_folder(path, status)
            raise

    def status(self) -> os.stat_result:
        """Return what the system knows of the folder itself."""
        return os.fstat(self._fd)

    def find(self, name: str) -> os.stat_result | None:
        """Return what the system knows of this name, without following a link; None for nothing."""
        assert "/" not in name, name
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check_file(self, name: str, *, is_sole: bool = False) -> os.stat_result | None:
        """Check that this name is that of a plain file, or of nothing. For a file that other code
        opens by its path: called immediately before (ST-81).

        Raises:
            Damage: It is none; or, with ``is_sole``, it has another name too.
        """
        status = self.find(name)
        if status is not None:
            self._check(name, status, is_sole)
        return status

    def check_folder(self, name: str) -> None:
        """Check that this name is that of a plain folder, or of nothing.

        Raises:
            Damage: It is none.
        """
        status = self.find(name)
        if status is not None:
            _check_folder(self.path / name, status)

    def check_socket(self, name: str) -> None:
        """Check that this name is that of a socket, or of nothing.

        Raises:
            Damage: It is none.
        """
        status = self.find(name)
        if status is not None and not stat.S_ISSOCK(status.st_mode):
            raise _not_plain(self.path / name, "a socket", status)

    def open(
        self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600, *, is_sole: bool = False
    ) -> int:
        """Open a plain file (ST-80, ST-82); return its descriptor, which the caller closes.

        Raises:
            Damage: It is no plain file; or, with ``is_sole``, it has another name too.
        """
        assert not flags & os.O_TRUNC, "truncated before it was looked at"
        assert "/" not in name, name
        try:
            fd = os.open(name, flags | _FILE, mode, dir_fd=self._fd)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:
            self.check_file(name)
            raise
        try:
            self._check(name, os.fstat(fd), is_sole)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read(self, name: str, bytes_max: int) -> bytes:
        """Read a plain file of at most ``bytes_max`` bytes (ST-84).

        Raises:
            Damage: It is no plain file, or it is longer.
        """
        fd = self.open(name)
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            data = b"" if size > bytes_max else file.read(bytes_max + 1)
        if size > bytes_max or len(data) > bytes_max:
            raise Damage(
                "the file is too large",
                location=str(self.path / name),
                expected=f"at most {bytes_max} bytes",
                actual=f"{max(size, len(data))} bytes",
                hint="restore a backup",
            )
        return data

    def create(self, name: str, mode: int = 0o600) -> int:
        """Make a new file; return its descriptor.

        Raises:
            FileExistsError: Something has that name, be it a link that leads nowhere.
        """
        return self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def put(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Make a file with this content, in place of one that has its name: whole and durable, or
        not at all (ST-85). Only one process may put this name at a time.

        Raises:
            OSError: It cannot be written. What had the name before still has it.
        """
        part = f"{name}{_PART}"
        self.remove(part)  # of a process that was killed
        try:
            with os.fdopen(self.create(part, mode), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self.rename(part, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(part)
            raise
        self.sync()

    def remove(self, name: str) -> None:
        """Remove a name, if it is there. A link goes; the file that it leads to stays."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder. A link is not followed, and not removed."""
        os.rmdir(name, dir_fd=self._fd)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in this folder. A file that has the new name is replaced."""
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def exchange(self, name: str, other: str) -> None:
        """Let two folders in this one have each other's name, in one step.

        A system that cannot do this takes three: after a crash between them, ``mend_exchange`` puts
        back the folder that has no name then.
        """
        if _exchanged(self._fd, name, other):
            return
        self.rename(name, name + _FORMER)
        self.rename(other, name)
        self.rename(name + _FORMER, other)

    def mend_exchange(self, name: str) -> None:
        """Put a folder back that an ``exchange`` which was cut short has left without its name."""
        if self.find(name) is None and self.find(name + _FORMER) is not None:
            self.rename(name + _FORMER, name)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name in this folder.

        Raises:
            FileExistsError: Something has the new name. Unlike a rename, this replaces nothing.
        """
        os.link(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd, follow_symlinks=False)

    def names(self) -> Iterator[str]:
        """Yield the names in this folder, in no order."""
        with os.scandir(self._fd) as entries:
            yield from (entry.name for entry in entries)

    def sync(self) -> None:
        """Make the names in the folder durable."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the descriptor of the folder."""
        os.close(self._fd)

    def _check(self, name: str, status: os.stat_result, is_sole: bool) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise _not_plain(self.path / name, "a file", status)
        if is_sole and status.st_nlink > 1:
            raise Damage(
                "this file would be written, and it is known by another name too",
                location=str(self.path / name),
                expected="a file with one name",
                actual=f"a hard link, one of {status.st_nlink}",
                hint="copy the folder with cp -a, and use the copy",
            )


def _exchanged(folder: int, name: str, other: str) -> bool:
    """Exchange two names by Linux's ``renameat2``; False if there is none."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415  # large, and needed when a node joins again

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(folder, name.encode(), folder, other.encode(), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):  # the file system has no such operation
        return False
    raise OSError(number, os.strerror(number), name)


def open_named(path: Path) -> int:
    """Open a file that the user names for reading, through links if there are any.

    Raises:
        OSError: It cannot be opened, or it is no regular file. A FIFO is not waited for.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, f"expected a file, found {_kind(status)}", str(path))
    return fd


def _check_folder(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise _not_plain(path, "a folder", status)


def _not_plain(path: Path, expected: str, status: os.stat_result) -> Damage:
    return Damage(
        "nothing of a world is reached through a link or a special file",
        location=str(path),
        expected=expected,
        actual=_kind(status),
        hint=_HINT,
    )


def _kind(status: os.stat_result) -> str:
    return next((name for is_so, name in _KINDS if is_so(status.st_mode)), "a device")
