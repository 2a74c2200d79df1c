"""A program that reads all of a store's file, to find out whether that ends a process (ST-18a).

    python -I -S walk.py FOLDER PACKAGES

It imports nothing of aos, so it starts in 20 ms. ``PACKAGES`` is the folder from which ``lmdb`` is
imported. It exits with 0 if all could be read, and with 3, after one line with the reason, if LMDB
found the file damaged; a signal ends it if LMDB did not survive. If the file cannot be opened at
all, it exits with 0, and its parent reports that error.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import lmdb

DAMAGED: Final = 3
SLICE_BYTES: Final = 16 << 20
"""Bytes after which one read transaction ends."""

ROW_BYTES: Final = 1024
"""Bytes that a row counts for in addition to its value."""

TABLES_MAX: Final = 64
ROOM_BYTES: Final = 1 << 26


def main(folder: str, packages: str) -> int:
    """Read every row and the list of free pages of the store in ``folder``; return the exit
    code. A transaction ends after ``SLICE_BYTES``, so that a writer can use freed pages
    meanwhile."""
    sys.path.append(packages)
    import lmdb  # noqa: PLC0415  # it is found only now

    file, lock = os.path.join(folder, "data.mdb"), os.path.join(folder, "lock.mdb")  # noqa: PTH118  # pathlib takes longer to import than this file to run
    try:
        env = lmdb.open(
            os.fsencode(folder),
            map_size=os.path.getsize(file) + ROOM_BYTES,  # noqa: PTH202
            readonly=True,
            create=False,
            lock=os.path.exists(lock),  # noqa: PTH110
            max_dbs=TABLES_MAX,
            lib_version=0,
        )
    except (lmdb.Error, OSError):
        return 0
    try:
        with env.begin() as txn:
            names = [bytes(name) for name, _ in txn.cursor()]
        for name in names:
            table = env.open_db(name, create=False)
            last_key: bytes | None = b""
            while last_key is not None:
                last_key = read_rows(env, table, last_key)
        read_free_pages(lmdb, env)
    except (lmdb.Error, OutOfOrderError) as problem:
        sys.stdout.write(f"{problem}\n")
        return DAMAGED
    return 0


class OutOfOrderError(Exception):
    """Keys that do not ascend: a page is in the place of another."""


def read_rows(env: lmdb.Environment, table: Any, last_key: bytes) -> bytes | None:
    """Read a slice of the rows behind ``last_key``; return its last key, None at the end."""
    size = 0
    with env.begin() as txn, txn.cursor(db=table) as cursor:
        if not (cursor.set_range(last_key + b"\0") if last_key else cursor.first()):
            return None
        for key, value in cursor:
            if key <= last_key:
                raise OutOfOrderError(f"key {key.hex()} after {last_key.hex()}")
            last_key = key
            size += ROW_BYTES + len(value)
            if size >= SLICE_BYTES:
                return last_key
    return None


def read_free_pages(lmdb: Any, env: lmdb.Environment) -> None:
    """Read the list of free pages, which is in no table: LMDB reads it for a copy."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        env.copyfd(nowhere, compact=True)
    except lmdb.IncompatibleError:
        pass  # a page that is neither used nor free does no harm
    finally:
        os.close(nowhere)


if __name__ == "__main__":
    sys.path.append(__file__.rsplit("/", 3)[0])  # ``-S`` leaves only the standard library
    from aos.private_memory import keep_memory_private

    keep_memory_private()
    sys.exit(main(*sys.argv[1:]))
