"""Folders to measure in: on a disk that fsync reaches, and taken away at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aos.errors import BadUsage
from benchmarks.figures import median

MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
SYNCS: Final = 100
DEFAULT: Final = Path("/var/tmp")


@contextmanager
def scratch(below: Path = DEFAULT) -> Iterator[Path]:
    """A new folder below ``below``; others may pass through it, to folders that are theirs.

    Raises:
        BadUsage: It would lie in memory, where a sync costs nothing.
    """
    kind = file_system(below)
    if kind in MEMORY:
        raise BadUsage(
            f"{below}: this is a {kind}, which no sync makes durable (give a folder on a disk: "
            "--dir DIR)"
        )
    path = Path(tempfile.mkdtemp(prefix="aos-bench-", dir=below))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def file_system(path: Path) -> str:
    """The kind of file system that ``path`` is on, such as ``ext4``."""
    real = path.resolve()
    best, kind = -1, "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].encode().decode("unicode_escape"))
        if real.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind


def sync_ms(folder: Path) -> float:
    """The median of writing 4 KiB to the end of a file and syncing it."""
    block = os.urandom(4096)
    file = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        found = []
        for _ in range(SYNCS):
            began = time.perf_counter()
            os.write(file, block)
            os.fdatasync(file)
            found.append(time.perf_counter() - began)
        return median(found) * 1e3
    finally:
        os.close(file)
        (folder / "sync").unlink()
