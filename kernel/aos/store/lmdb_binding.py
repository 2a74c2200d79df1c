"""LMDB's Python binding as the store uses it: names for its types, and its errors as errors of
ours, each with advice (spec/store.md, ST-4 and ST-17)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final, TypeAlias

import lmdb

from aos.errors import AosError, Damage, Unavailable, sentence
from aos.store.errors import CommitFailed, NoRoom
from aos.store.room import FULL, free_bytes, has_room

Txn: TypeAlias = "lmdb.Transaction[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001  # its type has no other name


def failure(error: lmdb.Error, folder: Path) -> AosError:
    """The error of a failed read, or of a store that cannot be opened (ST-17)."""
    location = str(folder)
    if isinstance(error, lmdb.PanicError):
        return failed_before(folder)
    for kind, problem, hint in _UNAVAILABLE:
        if isinstance(error, kind):
            return Unavailable(problem, location=location, hint=hint)
    if error.code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Unavailable(
            f"no permission: {error}",
            location=location,
            hint="a reader too must be able to write lock.mdb; or read a copy",
        )
    if error.code == 0:
        return Unavailable(f"the store is not usable: {error}", location=location)
    return Damage(
        f"the store cannot be read: {error}",
        location=location,
        hint="data.mdb is damaged, or the disk is: restore a backup",
    )


_UNAVAILABLE: Final = (
    (
        lmdb.ReadersFullError,
        "more readers at once than there are places",
        "end some of them",
    ),
    (
        lmdb.MapResizedError,
        "the store has outgrown what this process reserved for it",
        "open it again, with ulimit -v unlimited",
    ),
    (
        lmdb.MemoryError,
        "no memory to read the store",
        "close other programs",
    ),
)


def unopened(error: OSError, folder: Path) -> Unavailable:
    """The error of a store whose files cannot be opened."""
    problem = f"the store cannot be opened: {error.strerror}"
    return Unavailable(problem, location=str(folder))


def commit_failed(error: lmdb.Error | OSError, folder: Path) -> CommitFailed:
    """The error of a commit that failed for another reason than a full disk (ST-4)."""
    hint = "look at the disk; the world reopens at its last durable record"
    if isinstance(error, lmdb.MapFullError):
        hint = "the address space of this process is used up: ulimit -v unlimited"
    return CommitFailed(f"the commit failed: {error}", location=str(folder), hint=hint)


def failed_before(folder: Path) -> CommitFailed:
    """The error of every use of a store after a failed commit (ST-4)."""
    return CommitFailed(
        "an earlier commit failed, so that this store is of no more use",
        location=str(folder),
        hint="start again: the world reopens at its last durable record",
    )


def found_no_room(error: lmdb.Error, folder: Path, needed_bytes: int) -> bool:
    """Whether a write of ``needed_bytes`` bytes failed because the disk is full. LMDB reports a
    short write as "input/output error", as for a broken disk, so the file system is asked (ST-4).
    """
    return error.code in FULL or (error.code == errno.EIO and not has_room(folder, needed_bytes))


def no_room(problem: str, folder: Path, needed_bytes: int) -> NoRoom:
    """The error of a write that found no room, with the bytes that are needed and free."""
    free = free_bytes(folder)
    return NoRoom(
        sentence(
            problem,
            location=str(folder),
            expected=f"about {needed_bytes} bytes",
            actual=f"{free} bytes free",
            hint="make room; nothing is lost and nothing was acknowledged",
        ),
        needed_bytes=needed_bytes,
        free=free,
    )
