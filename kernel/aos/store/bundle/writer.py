"""Frames and values -> a bundle, there whole or not at all (spec/bundle.md, B-20 to B-24)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from blake3 import blake3

from aos.core.journal.frame import Head
from aos.errors import AosError, Refused, Unavailable, sentence
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
from aos.store.bundle.seen import Seen
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash

PART_SUFFIX: Final = ".part"
ROWS_AT_ONCE: Final = 4096


class BundleWriter:
    """Writes ``FILE.part`` and gives it its name in ``finish``. Without that, leaving the block
    removes the part again (B-20, B-21).

    Memory does not grow with the bundle.
    """

    def __init__(self, target: Path, *, force: bool = False) -> None:
        """Raises:
        Refused: ``target`` is there already, and not ``force``.
        Unavailable: The file cannot be made, or another process writes it.
        """
        self.target = target
        self._force = force
        self._part = target.with_name(target.name + PART_SUFFIX)
        self._check_free()
        self._fd = self._take_part()
        self._digest = blake3()
        self.size = 0
        self.frames = 0
        self.blobs = 0
        self.erased = 0
        try:
            self._seen = Seen()
        except BaseException:
            self._drop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._seen.close()
        self._drop()

    def header(self, header: BundleHeader) -> None:
        """Write the first item."""
        self._put(item(HEADER, header.to_bytes()))

    def frame(self, data: bytes) -> None:
        """Write the next frame of the journal."""
        self._put(item(FRAME, data))
        self.frames += 1

    def has(self, value: Hash, /) -> bool:
        """Whether a value was written, or listed as erased."""
        return value in self._seen

    def blob(self, value: Hash, data: bytes) -> None:
        """Write a value that was not written yet."""
        self._seen.add(value, self.size)
        self._put(opening(BLOB, len(data)))
        self._put(data)
        self.blobs += 1

    def erase(self, erased: ErasedValue) -> None:
        """List a value that cannot be written, because it was erased."""
        self._seen.add(erased.value, self.size)
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
        rows = iter(self._seen)
        while some := b"".join(row(*each) for each in islice(rows, ROWS_AT_ONCE)):
            self._put(some)
        end = End(head_at=head_at, index_at=index_at, digest=self._digest.digest())
        self._put(item(END, end.to_bytes()))
        try:
            os.fsync(self._fd)
            with PlainFolder.named(self.target.parent) as folder:
                self._name(folder)
                folder.sync()
        except OSError as error:
            raise self._failed(error) from error

    def _name(self, folder: PlainFolder) -> None:
        part, target = self._part.name, self.target.name
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

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise self._failed(error) from error
        self._digest.update(data)
        self.size += len(data)

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

    def _take_part(self) -> int:
        """Open the part, which is ours while its lock is: one that a killed process left is taken
        over."""
        try:
            while True:
                with PlainFolder.named(self._part.parent) as folder:
                    flags = os.O_WRONLY | os.O_CREAT
                    fd = folder.open(self._part.name, flags, is_sole=True)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Its owner may have named it or taken it away before we had the lock.
                    if _is_there(self._part, fd):
                        os.ftruncate(fd, 0)
                        return fd
                except BaseException:
                    os.close(fd)
                    raise
                os.close(fd)
        except BlockingIOError:
            raise Unavailable(
                f"{self._part}: another process writes this file (wait for it, or stop it)"
            ) from None
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> AosError:
        return Unavailable(
            f"{self.target}: the file cannot be written: {error.strerror or error}; "
            "nothing was left behind"
        )

    def _drop(self) -> None:
        """Close the file, and remove it if it was not finished."""
        if self._fd < 0:
            return
        if _is_there(self._part, self._fd):
            with contextlib.suppress(OSError), PlainFolder.named(self._part.parent) as folder:
                folder.remove(self._part.name)
        os.close(self._fd)
        self._fd = -1


def _is_there(path: Path, fd: int) -> bool:
    """Whether ``path`` is the file that is open as ``fd``."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except OSError:
        return False
