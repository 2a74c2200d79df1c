"""Every row of a store, to make the same store elsewhere (spec/cluster.md, CL-130).

    system, meta, then the other tables by name    each ascending by key
    pack                                           the bytes of a blob that has a file of its own

Rule 1: all rows come from one read transaction. Other processes may write meanwhile.

Rule 2: a store that is being filled is no store until the caller says so: its rows come in many
transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aos.errors import Damage, Refused, Unavailable
from aos.store.environment import FORMATS, Environment
from aos.store.environment import LATER_TABLES as LATER
from aos.store.environment import TABLES as FIRST
from aos.store.rows import PackedRow
from aos.values.digests import HASH_BYTES, Hash

SYSTEM: Final = "system"
META: Final = "meta"
FRAMES: Final = "frames"
BLOBS: Final = "blobs"
PACK: Final = "pack"
"""In place of a table: the key is a content hash, the value the content of its file."""

HEAD_KEY: Final = b"head"
CUT_KEY: Final = b"cut"
FORMAT_KEY: Final = b"format"

_PACKED: Final = "packed"
_COMMIT_BYTES: Final = 32 << 20
_ROW_ROOM: Final = 2 * 4096
_TABLES: Final = (SYSTEM, META, *sorted({*FIRST, *LATER} - {SYSTEM, META}))


class StoredRow(NamedTuple):
    """One row of a store, or one pack."""

    table: str
    key: bytes
    value: bytes


def all_rows(environment: Environment) -> Iterator[StoredRow]:
    """Yield every row, and the pack behind each row of ``packed``.

    Raises:
        Unavailable: A pack was removed meanwhile, or a writer replaced the file.
        Damage: A row or a pack cannot be read.
    """
    tables = [table for table in _TABLES if environment.has_table(table)]
    with environment.snapshot() as txn:
        for table in tables:
            for key, value in txn.cursor(db=environment.tables[table]):
                if table == _PACKED:
                    yield StoredRow(PACK, key, _pack(environment, key, value))
                yield StoredRow(table, key, value)


def _pack(environment: Environment, key: bytes, row: bytes) -> bytes:
    hash = Hash(key)
    if not environment.packs.path(hash).exists():
        raise Unavailable(
            "a large value was removed while the store was read",
            location=str(environment.packs.path(hash)),
            hint="run the command again",
        )
    return environment.packs.read(hash, PackedRow.from_bytes(row).size)


def put_rows(environment: Environment, rows: Iterable[StoredRow]) -> int:
    """Write rows into a store that has no journal yet; return how many. They are durable on return,
    in many transactions before that.

    Raises:
        Refused: A newer release has written one: it is of an unknown table or format.
        Damage: A row is out of order.
        NoRoom, CommitFailed: As ``LmdbStore.append``.
    """
    count, size = 0, 0
    group: list[StoredRow] = []
    for row in rows:
        _check_row(environment, row)
        group.append(row)
        count += 1
        size += len(row.value) + len(row.key)
        if size >= _COMMIT_BYTES:
            _commit(environment, group, size)
            group, size = [], 0
    if group:
        _commit(environment, group, size)
    return count


def _check_row(environment: Environment, row: StoredRow) -> None:
    is_known = row.table in environment.tables or row.table == PACK
    if not is_known or (row.table == SYSTEM and row.key == FORMAT_KEY and row.value not in FORMATS):
        raise Refused(
            "a newer release wrote this store",
            location=environment.location,
            expected="tables and a format that this release knows",
            actual=f"the table {row.table}" if not is_known else f"format {row.value[:16]!r}",
            hint="use that release",
        )
    if row.table == PACK and len(row.key) != HASH_BYTES:
        raise Damage("the key of a pack is no hash", location=environment.location)


def _commit(environment: Environment, group: list[StoredRow], size: int) -> None:
    packs = {Hash(row.key): row.value for row in group if row.table == PACK}
    if packs:
        environment.write_packs(packs)
    with environment.write(size + len(group) * _ROW_ROOM) as txn:
        for row in group:
            if row.table == PACK:
                continue
            appends = row.table not in (SYSTEM, META)
            table = environment.tables[row.table]
            if not txn.put(row.key, row.value, db=table, append=appends):
                raise Damage(
                    f"the rows of {row.table} are out of order at {row.key.hex()}",
                    location=environment.location,
                )
