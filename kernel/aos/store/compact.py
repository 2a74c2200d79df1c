"""Every row of a store -> a new file that holds nothing else (spec/store.md, ST-50 to ST-53).

LMDB's own compacting copy copies pages as they are. The bytes behind the end of a value in its last
page are left over from earlier: they may be a value that was erased since. So rows are read and
written one by one, into pages that begin as zeros.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lmdb

from aos.store.meta_pages import renumber

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Table, Txn

COMMIT_BYTES: Final = 64 << 20
"""The new file is committed after so many bytes: LMDB holds uncommitted ones in memory."""


def copy_rows(
    source: lmdb.Environment,
    tables: Mapping[str, Table],
    target: Path,
    *,
    rewritten_row: tuple[str, bytes],
    home: tuple[str, bytes] | None,
) -> None:
    """Write all rows of ``source``, deltas too (ST-95), into the empty file ``target`` and sync it.
    No one else writes.

    The file has no bytes of erased values (ST-51). Packs are not part of it and stay (ST-67).

    The row ``home`` (table and key) names the new file instead of the old one (ST-70).

    Processes that share the source's lock file go by the number of the last transaction in it:
    whether it is even says which meta page counts, and the next transaction takes the next number.
    So the copy ends with the same number, and its last transaction writes the row ``rewritten_row``
    (table and key) as it is, so that both meta pages describe the same rows (ST-52).

    Raises:
        lmdb.Error: A row cannot be read or written. ``target`` is then of no use.
        OSError: The same.
    """
    source_last = source.info()["last_txnid"]
    with _open_copy(source, target, len(tables)) as copy_env:
        _copy(source, copy_env, tables, target, commits_max=source_last - 1, home=home)
        made_last = copy_env.info()["last_txnid"]
    last = max(source_last, made_last + 1)
    commits = 2 - (last - made_last) % 2  # the numbers in one page are all even or all odd
    renumber(target, last - commits)
    with _open_copy(source, target, len(tables)) as copy_env:
        table = copy_env.open_db(rewritten_row[0].encode(), create=False)
        for _ in range(commits):
            with copy_env.begin(write=True) as txn:
                _write_again(txn, table, rewritten_row[1])
        copy_env.sync(True)  # LMDB's "force", by position only


@contextlib.contextmanager
def _open_copy(source: lmdb.Environment, target: Path, tables: int) -> Iterator[lmdb.Environment]:
    copy_env = lmdb.open(
        os.fsencode(target), map_size=source.info()["map_size"], subdir=False, lock=False,
        mode=0o600, max_dbs=tables, sync=False, lib_version=0,
    )  # fmt: skip
    try:
        yield copy_env
    finally:
        copy_env.close()


def _copy(
    source: lmdb.Environment,
    copy_env: lmdb.Environment,
    tables: Mapping[str, Table],
    target: Path,
    *,
    commits_max: int,
    home: tuple[str, bytes] | None,
) -> None:
    copied: dict[str, Table] = {}
    with source.begin() as rows:
        into = copy_env.begin(write=True)
        size = 0
        for name, table in tables.items():
            copied[name] = copy_env.open_db(name.encode(), txn=into)
            for key, value in rows.cursor(db=table):
                into.put(key, value, append=True, db=copied[name])
                size += len(value)
                if size >= COMMIT_BYTES and commits_max > 1:
                    into.commit()
                    into = copy_env.begin(write=True)
                    commits_max -= 1
                    size = 0
        if home is not None:
            into.put(home[1], home_row(target), db=copied[home[0]])
        into.commit()


def home_row(data: Path | str) -> bytes:
    """The value of the row ``home``: the inode of the data file, big end first (ST-70)."""
    return Path(data).stat().st_ino.to_bytes(8, "big")


def _write_again(txn: Txn, table: Table, key: bytes) -> None:
    value = txn.get(key, db=table)
    assert value is not None, f"no row {key!r}"
    txn.put(key, value, db=table)
