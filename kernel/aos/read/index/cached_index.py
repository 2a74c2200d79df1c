"""Where the machine's cache keeps indexes of worlds and bundles (spec/index.md, IX-50 to IX-53).

index/<world>-<frame>/     one index: 16 digits of the world's id, and of the hash of the frame
                           that was its last one when it was made; a number if that is there
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Final

from aos.core.journal.frame import Head
from aos.errors import Damage, Pruned, Unavailable
from aos.read.index.folding_index import is_of
from aos.read.index.index_errors import BYTES_MAX
from aos.read.index.index_file import (
    DATABASES,
    FILES,
    OLD_FILES,
    WRITER_NAME,
    is_being_written,
    open_to_read,
)
from aos.read.lens.ports import Journal
from aos.sandbox.cache import standard_folder
from aos.store.plain_files import PlainFolder

FOLDER: Final = "index"
CACHE_BYTES_MAX: Final = BYTES_MAX
DIGITS: Final = 16

OF_NODE: Final = Path("node", "index")
"""The folder, below that of a world, in which its node keeps the index."""

_OLD_OF_NODE: Final = ("journal-index",)
"""Folders next to it in which earlier releases kept an index."""

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def index_cache(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of all cached indexes: ``index`` in ``AOS_CACHE_DIR``, else ``aos/index`` in
    ``XDG_CACHE_HOME`` or ``~/.cache``. None if ``AOS_CACHE_DIR`` is empty, or nothing is set."""
    modules = standard_folder(environment)
    if modules is None:
        return None
    return modules / FOLDER if environment.get("AOS_CACHE_DIR") else modules.parent / FOLDER


def find_index(cache: Path, journal: Journal) -> Path | None:
    """The folder of the index that continues with this journal and has most of it; None if there
    is none. Raises Damage if the journal cannot be read."""
    end = journal.head()
    if end is None or not cache.is_dir():
        return None
    best: tuple[int, Path] | None = None
    for folder in sorted(cache.glob(_pattern(end))):
        at = _record_of(folder, journal)
        if at is not None and (best is None or at > best[0]):
            best = at, folder
    return None if best is None else best[1]


def index_of(world: Path, journal: Journal) -> Path | None:
    """The folder of the index of a world: that of its node, or one in the cache; None if there is
    none. Nothing is written. A node's index alone is not read here: ``OpenedIndex`` reads it, and
    checks each byte of it."""
    cache = index_cache()
    if not _has_cached(cache, journal):
        return world / OF_NODE
    if _record_of(world / OF_NODE, journal) is not None:
        return world / OF_NODE
    with contextlib.suppress(Damage, OSError):
        return None if cache is None else find_index(cache, journal)
    return None


def _has_cached(cache: Path | None, journal: Journal) -> bool:
    """Whether the cache may have an index of this journal."""
    with contextlib.suppress(Damage, OSError):
        end = journal.head()
        return cache is not None and end is not None and any(cache.glob(_pattern(end)))
    return False


def _pattern(end: Head) -> str:
    return f"{end.world.hex()[:DIGITS]}-*"


def _record_of(folder: Path, journal: Journal) -> int | None:
    """The last record of the index in a folder; None if it cannot be used for this journal."""
    with contextlib.suppress(Unavailable, Damage, Pruned):
        file = open_to_read(folder)
        if file is None:
            return None
        with file:
            head = file.head()
        return head.at if head is not None and is_of(head, journal) else None
    return None


def folder_for(cache: Path, journal: Journal) -> Path:
    """The folder of the index of this journal, found or to be made; the cache is made if missing.

    Raises:
        Damage: The journal has no record.
        Unavailable: The cache is not this user's alone, or cannot be made.
    """
    _make_own_cache(cache)
    folder = find_index(cache, journal)
    if folder is not None:
        return folder
    end = journal.head()
    if end is None:
        raise Damage("a journal without a record has no index")
    name = f"{end.world.hex()[:DIGITS]}-{end.frame.hex()[:DIGITS]}"
    # A backup may end with the frame that another history's index is named after.
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(cache / folder_name for folder_name in names if not _is_sound(cache / folder_name))


def _is_sound(folder: Path) -> bool:
    try:
        file = open_to_read(folder)
    except Damage:
        return False
    if file is not None:
        file.close()
    return file is not None


def make_room(cache: Path, *, keep: Path, bytes_max: int = CACHE_BYTES_MAX) -> list[Path]:
    """Remove the indexes that were written least recently until all take at most ``bytes_max``
    bytes; return what was removed. ``keep``, and those that a process writes, stay."""
    sizes: list[tuple[float, Path, int]] = []
    for folder in cache.iterdir():
        statuses = [
            (folder / name).stat() for name in (*DATABASES, *OLD_FILES) if (folder / name).is_file()
        ]
        if statuses:
            newest = max(status.st_mtime for status in statuses)
            sizes.append((newest, folder, sum(status.st_size for status in statuses)))
    total = sum(size for _, _, size in sizes)
    removed = []
    for _, folder, size in sorted(sizes):
        if total <= bytes_max:
            break
        if folder == keep or is_being_written(folder):
            continue
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        removed.append(folder)
        total -= size
    return removed


def _make_own_cache(cache: Path) -> None:
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = cache.lstat()
    except OSError as error:
        problem = f"the cache of indexes cannot be used: {error.strerror}"
        raise Unavailable(problem, location=str(cache)) from error
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or mode & _OTHERS_WRITE:
        raise Unavailable(
            "the cache of indexes is not this user's alone",
            location=str(cache),
            expected="a folder with mode 0700",
            actual=f"user {status.st_uid}, mode {mode:04o}",
            hint="remove it, or name another one by AOS_CACHE_DIR",
        )


def remove_old_index(folder: Path) -> None:
    """Remove the index that an earlier release kept next to the folder of a node's index (IX-37).
    A file that cannot be removed stays; nothing reads it."""
    with contextlib.suppress(OSError, Damage), PlainFolder.at(folder.parent) as node:
        for name in _OLD_OF_NODE:
            with node.inner(name) as old:
                for file in (*OLD_FILES, WRITER_NAME):
                    old.remove(file)
            node.remove_folder(name)
