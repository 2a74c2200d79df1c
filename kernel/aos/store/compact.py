"""Every row of a store -> a new file that holds nothing else (spec/store.md, ST-50 to ST-53).

LMDB's own compacting copy takes pages over as they are. What is behind the end of a value in its
last page is whatever stood in that memory before: it may be a value that was erased since. So rows
are read and written one by one, into pages that begin as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lmdb

if TYPE_CHECKING:
    from aos.store.environment import Table, Txn

COMMIT_BYTES: Final = 64 << 20
"""After so many bytes the new file is committed: what is not yet is held in memory."""


def copy_rows(
    source: lmdb.Environment,
    tables: Mapping[str, Table],
    target: Path,
    *,
    again: tuple[str, bytes],
    home: tuple[str, bytes] | None,
) -> None:
    """Write all rows of ``source`` into a new file ``target`` and sync it. Nobody else writes.

    The row ``home`` (table and key) gets the new file in place of the old one (ST-70).

    The last transaction writes the row ``again`` (table and key) as it is, so that both meta pages
    of the file stand for the same rows; and there are no more transactions than the source has
    had. Who shares the source's lock file goes by the number in it: whether it is even says which
    meta page counts, and the next transaction has the next number.

    Raises:
        lmdb.Error: A row cannot be read or written. ``target`` is then of no use.
    """
    made = lmdb.open(
        str(target), map_size=source.info()["map_size"], subdir=False, lock=False, mode=0o600,
        max_dbs=len(tables), sync=False, lib_version=0,
    )  # fmt: skip
    try:
        commits_left = source.info()["last_txnid"] - 1
        copied: dict[str, Table] = {}
        with source.begin() as rows:
            into = made.begin(write=True)
            size = 0
            for name, table in tables.items():
                copied[name] = made.open_db(name.encode(), txn=into)
                for key, value in rows.cursor(db=table):
                    into.put(key, value, append=True, db=copied[name])
                    size += len(value)
                    if size >= COMMIT_BYTES and commits_left > 1:
                        into.commit()
                        into = made.begin(write=True)
                        commits_left -= 1
                        size = 0
            if home is not None:
                into.put(home[1], home_row(target), db=copied[home[0]])
            into.commit()
        with made.begin(write=True) as last:
            _write_again(last, copied[again[0]], again[1])
        made.sync(True)  # LMDB's "force", by position only
    finally:
        made.close()


def home_row(data: Path | str) -> bytes:
    """What the row ``home`` says of a data file: which inode it is, big end first."""
    return Path(data).stat().st_ino.to_bytes(8, "big")


def _write_again(txn: Txn, table: Table, key: bytes) -> None:
    value = txn.get(key, db=table)
    assert value is not None, f"no row {key!r}"
    txn.put(key, value, db=table)
