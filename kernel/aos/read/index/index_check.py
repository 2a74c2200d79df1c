"""The program that reads all of an index and compares its checksum (spec/index.md, IX-31).

    python -m aos.read.index.index_check FOLDER

It exits with 0 if the file is whole, and with 3, after one line with the reason, if it is not. A
signal ends it if LMDB does not survive the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import lmdb

from aos.private_memory import keep_memory_private
from aos.read.index.index_errors import BYTES_MAX
from aos.read.index.index_file import HEAD_KEY, HEAD_TABLE
from aos.read.index.index_head import IndexHead
from aos.read.index.index_layout import IndexTable
from aos.read.index.index_rows import SUM_MODULUS, row_sum
from aos.store.walk import read_free_pages

DAMAGED: Final = 3


def problem_of(folder: Path) -> str | None:
    """The reason why the file is not whole; None if it is."""
    env = lmdb.open(
        os.fsencode(folder), map_size=BYTES_MAX, readonly=True, create=False, lock=False,
        max_dbs=len(IndexTable) + 1, lib_version=0,
    )  # fmt: skip
    try:
        head_table = env.open_db(HEAD_TABLE, create=False)
        tables = {
            index_table: env.open_db(index_table.name.lower().encode(), create=False)
            for index_table in IndexTable
        }
        with env.begin() as txn:
            data = txn.get(HEAD_KEY, db=head_table)
            head = None if data is None else IndexHead.from_bytes(data)
            if head is None:
                return "it is of another format, or its head is damaged"
            checksum = 0
            for table, rows in tables.items():
                previous_key = None
                with txn.cursor(db=rows) as cursor:
                    for key, value in cursor:
                        if previous_key is not None and key <= previous_key:
                            return f"its table {table.name.lower()} is out of order"
                        previous_key = key
                        checksum += row_sum(table, key, value)
        read_free_pages(lmdb, env)
    finally:
        env.close()
    if checksum % SUM_MODULUS != head.sum:
        return "its rows do not have their checksum"
    return None


def main(folder: str) -> int:
    """Print the reason; return the exit code."""
    try:
        problem = problem_of(Path(folder))
    except lmdb.Error as error:
        problem = str(error)
    if problem is not None:
        sys.stdout.write(f"{problem}\n")
    return 0 if problem is None else DAMAGED


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(*sys.argv[1:]))
