"""Errors of the file of an index, each with what to do (spec/index.md, IX-34, IX-35, IX-70)."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import lmdb

from aos.errors import AosError, Damage, Unavailable, sentence
from aos.store.lmdb_binding import found_no_room
from aos.store.room import FULL

BYTES_MAX: Final = 4 << 30
"""The largest file of an index."""

_ROOM_BYTES: Final = 1 << 20
"""Bytes that one transaction writes at most, about."""


class IndexFull(Unavailable):
    """The index would be larger than ``BYTES_MAX``. It was not changed."""


@contextlib.contextmanager
def index_errors(folder: Path) -> Iterator[None]:
    """Turn errors of LMDB and of the system in the block into errors of ours.

    Raises:
        Damage: LMDB has found damage.
        IndexFull: The index has as many bytes as it may have.
        Unavailable: The disk is full or broken, or the file may not be used.
    """
    try:
        yield
    except AosError:
        raise
    except lmdb.MapFullError as error:
        expected = f"at most {BYTES_MAX >> 30} GiB"
        raise IndexFull(
            sentence("the index is full", location=str(folder), expected=expected)
        ) from error
    except lmdb.Error as error:
        if found_no_room(error, folder, _ROOM_BYTES):
            raise _no_room(folder) from error
        if error.code in (errno.EFBIG, errno.EIO, errno.EACCES, errno.EROFS) or (
            isinstance(error, lmdb.ReadersFullError | lmdb.MemoryError | lmdb.LockError)
        ):
            problem = f"the index cannot be used: {error}"
            hint = "look at the disk; without an index, lists read the whole journal"
            raise Unavailable(sentence(problem, location=str(folder), hint=hint)) from error
        raise damaged(folder, str(error)) from error
    except OSError as error:
        if error.errno in FULL:
            raise _no_room(folder) from error
        problem = f"the index cannot be used: {error.strerror}"
        raise Unavailable(sentence(problem, location=str(folder))) from error


def _no_room(folder: Path) -> Unavailable:
    problem = "there is no room on the disk for the index"
    return Unavailable(sentence(problem, location=str(folder), hint="make room on this disk"))


def damaged(folder: Path, actual: str) -> Damage:
    """The error of an index of which something is not as it was written."""
    return Damage(
        sentence(
            "the index is damaged",
            location=str(folder),
            actual=actual,
            hint="delete this folder: the index is rebuilt from the journal",
        )
    )
