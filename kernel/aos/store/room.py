"""Free space on a file system, found by allocating it (spec/store.md, ST-4).

The figures that a file system reports are not reliable. ext4 counts blocks as free that it reserves
even from root; with a quota, or on a file system that copies blocks on write, there is less room
than reported.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of calls that found no room."""


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
