"""Errors of the files of an index, each with what to do (spec/index.md, IX-34, IX-35, IX-70)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aos.errors import AosError, Damage, Unavailable
from aos.store.room import FULL, has_room

BYTES_MAX: Final = 4 << 30
"""The largest file of an index."""

_ROOM_BYTES: Final = 1 << 20
"""Bytes that one transaction writes at most, about."""

_OF_THE_SYSTEM: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
    }
)  # fmt: skip
"""Results of SQLite that are no sign of damage."""


class IndexFull(Unavailable):
    """The index would be larger than ``BYTES_MAX``. It was not changed."""


@contextlib.contextmanager
def index_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system in the block into errors of ours.

    Raises:
        Damage: SQLite has found damage.
        IndexFull: The index has as many bytes as it may have.
        Unavailable: The disk is full or broken, or the file may not be used.
    """
    try:
        yield
    except AosError:
        raise
    except sqlite3.Error as error:
        result = error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else None
        if result not in _OF_THE_SYSTEM:
            raise damaged(folder, str(error)) from error
        if not has_room(folder, _ROOM_BYTES):
            raise _no_room(folder) from error
        if result == sqlite3.SQLITE_FULL:
            expected = f"at most {BYTES_MAX >> 30} GiB"
            raise IndexFull("the index is full", location=str(folder), expected=expected) from error
        problem = f"the index cannot be used: {error}"
        hint = "look at the disk; without an index, lists read the whole journal"
        raise Unavailable(problem, location=str(folder), hint=hint) from error
    except OSError as error:
        if error.errno in FULL:
            raise _no_room(folder) from error
        problem = f"the index cannot be used: {error.strerror}"
        raise Unavailable(problem, location=str(folder)) from error


def _no_room(folder: Path) -> Unavailable:
    problem = "there is no room on the disk for the index"
    return Unavailable(problem, location=str(folder), hint="make room on this disk")


def damaged(folder: Path, actual: str) -> Damage:
    """The error of an index of which something is not as it was written."""
    return Damage(
        "the index is damaged",
        location=str(folder),
        actual=actual,
        hint="delete this folder: the index is rebuilt from the journal",
    )
