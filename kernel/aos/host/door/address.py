"""Shorten a socket's path to the 107 bytes that Linux accepts (spec/host.md, H-52)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.errors import Unavailable

PATH_BYTES_MAX: Final = 107
"""The size of ``sun_path`` on Linux without its final zero; other systems have a bit less."""


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name for ``path`` that is short enough, valid inside the block.

    A longer path is reached through a descriptor of its folder, if the system has ``/proc``.

    Raises:
        Unavailable: The path is too long, and there is no ``/proc``.
    """
    size = len(os.fsencode(path))
    if size <= PATH_BYTES_MAX:
        yield os.fspath(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise Unavailable(
            f"{path}: a socket's path may have {PATH_BYTES_MAX} bytes here, this one has {size} "
            "(move the world to a shorter path)"
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
