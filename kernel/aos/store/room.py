"""What a file system has left, asked in the one way that it answers truthfully: by taking it.

Its figures do not tell. ext4 counts blocks as free that it keeps for itself, also from root; a
quota, or a file system that copies what it overwrites, leaves less than it says.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a call says that found no room."""


def has_room(folder: Path, size: int) -> bool:
    """Whether a new file in ``folder`` could have ``size`` bytes now. It is gone when this returns.

    A file system that cannot be asked is taken to have room.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            os.posix_fallocate(probe.fileno(), 0, max(size, 1))
    except OSError as error:
        return error.errno not in FULL
    return True


def free_bytes(folder: Path) -> int:
    """What the file system says it has left for everybody. For people only."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


def allocate(fd: int, size: int) -> None:
    """Give the file ``size`` bytes that lie on the disk, and leave what is in it.

    Raises:
        OSError: One of ``FULL`` where there is no room; the file may have become longer.
    """
    stat = os.fstat(fd)
    if stat.st_size < size or stat.st_blocks * 512 < size:
        os.posix_fallocate(fd, 0, size)
