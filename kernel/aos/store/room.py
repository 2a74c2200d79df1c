"""The free room of a store on its disk, found by allocating it (spec/store.md, ST-4), and
the reserve for the removal of data on a full disk (ST-100).

The figures that a file system reports are not reliable. ext4 counts blocks as free that it reserves
even from root; with a quota, or on a file system that copies blocks on write, there is less room
than reported.

Removing rows writes to the store first, so a full disk could not be cleaned up without the reserve:

    DIR/store/reserve     ``RESERVE_BYTES`` bytes, allocated on the disk, without a meaning
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from aos.errors import Damage
from aos.store.plain_files import PlainFolder

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of calls that found no room."""

RESERVE_NAME: Final = "reserve"
RESERVE_BYTES: Final = 4 << 20


def has_room(folder: Path, size: int) -> bool:
    """Whether a new file of ``size`` bytes fits into ``folder`` now (ST-4a). A temporary file is
    made and removed again. If that fails for another reason, there is taken to be room."""
    import tempfile  # noqa: PLC0415  # slow to import, and room is rarely short

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            os.posix_fallocate(probe.fileno(), 0, max(size, 1))
    except OSError as error:
        return error.errno not in FULL
    return True


def free_bytes(folder: Path) -> int:
    """Return how many bytes the file system reports as free. For messages only."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


def lock_file_bytes(readers: int) -> int:
    """Return the size of LMDB's lock file: a head, and a cache line for each reader."""
    return 128 + 64 * readers


def allocate(fd: int, size: int) -> None:
    """Allocate ``size`` bytes on the disk for a file, without changing its contents (ST-14a).

    Raises:
        OSError: One of ``FULL`` if there is no room; the file may have become longer.
    """
    stat = os.fstat(fd)
    if stat.st_size < size or stat.st_blocks * 512 < size:
        os.posix_fallocate(fd, 0, size)


def make_reserve(folder: Path) -> bool:
    """Return whether the store in ``folder`` has its whole reserve, which is made if it is missing.

    It is made only if twice its size is free, so that it never takes the last of the disk (ST-101).
    It is not synced: a crash may leave it incomplete, and then it is made again (ST-102).
    """
    try:
        with PlainFolder.at(folder) as store:
            return _is_reserve_whole(store) or _allocate_reserve(store)
    except (OSError, Damage):
        return False


def release_reserve(folder: Path) -> bool:
    """Free the space of the reserve. False if there is none."""
    try:
        with PlainFolder.at(folder) as store:
            has_one = store.find(RESERVE_NAME) is not None
            store.remove(RESERVE_NAME)
            return has_one
    except (OSError, Damage):
        return False


def _is_reserve_whole(store: PlainFolder) -> bool:
    status = store.find(RESERVE_NAME)
    return status is not None and status.st_size == RESERVE_BYTES and _is_reserve_allocated(status)


def _is_reserve_allocated(status: os.stat_result) -> bool:
    return status.st_blocks * 512 >= RESERVE_BYTES


def _allocate_reserve(store: PlainFolder) -> bool:
    store.remove(RESERVE_NAME)
    fd = store.create(RESERVE_NAME)
    try:
        os.posix_fallocate(fd, 0, 2 * RESERVE_BYTES)
        os.ftruncate(fd, RESERVE_BYTES)
        is_whole = _is_reserve_allocated(os.fstat(fd))
    except OSError:
        is_whole = False
    finally:
        os.close(fd)
    if not is_whole:  # the disk is nearly full, or its file system allocates nothing in advance
        with contextlib.suppress(OSError):
            store.remove(RESERVE_NAME)
    return is_whole
