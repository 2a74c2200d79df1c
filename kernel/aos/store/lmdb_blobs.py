"""Blobs in LMDB: small ones in a table, large ones in packs, erased ones with their row
(spec/store.md, ST-20 to ST-23 and ST-60 to ST-67)."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from aos.errors import Damage
from aos.store.environment import Environment
from aos.store.errors import CommitFailed
from aos.store.lmdb_rows import LmdbRows
from aos.store.packs import PACKED_BYTES
from aos.store.rows import ErasedRow, PackedRow
from aos.store.store import checked_blob, names_in
from aos.values.digests import HASH_BYTES, Hash, hash_text
from aos.values.sha256 import Name, read_name, true_sha256

if TYPE_CHECKING:
    from aos.store.lmdb_types import Table, Txn


@dataclass(slots=True)
class PackChanges:
    """The packs that a transaction gives a row, and those whose row it removes."""

    named: set[Hash] = field(default_factory=set)
    gone: set[Hash] = field(default_factory=set)

    def name(self, hash: Hash) -> None:
        """A row now names the pack of this blob."""
        self.named.add(hash)
        self.gone.discard(hash)

    def drop(self, hash: Hash) -> None:
        """No row names the pack of this blob any more."""
        self.gone.add(hash)
        self.named.discard(hash)


class LmdbBlobs:
    """The blobs of one store. Methods that write are called in a transaction and in ``packing``."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows
        self._true: dict[Hash, bytes] = {}

    # Reading

    def read(self, hash: Hash) -> bytes:
        """Raises: Erased, Damage: As ``Store.blob``."""

        def take(txn: Txn) -> tuple[bytes | None, PackedRow | None, ErasedRow | None]:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            if data is not None:
                return data, None, None
            packed = self._packed(txn, hash)
            return None, packed, None if packed is not None else self._erased(txn, hash)

        self._know_later_tables()
        data, packed, erased = self._rows.read(take)
        for is_last in (False, False, True):
            if packed is None:
                break
            try:
                return self._environment.packs.read(hash, packed.size)
            except Damage:
                # A writer may have erased it after its row was read, and even stored it again.
                data, packed, erased = self._rows.read(take)
                if packed is not None and is_last:
                    raise
        return checked_blob(data, hash, erased, self._environment.where)

    def has(self, hash: Hash) -> bool:
        """As ``Store.has_blob``."""

        def take(txn: Txn) -> bool:
            return _has(txn, hash, tables["blobs"]) or (
                "packed" in tables and _has(txn, hash, tables["packed"])
            )

        tables = self._environment.tables
        self._know_later_tables()
        return self._rows.read(take)

    def first_bytes(self, hash: Hash, most: int) -> bytes | None:
        """As ``Store.first_bytes``."""

        def take(txn: Txn) -> tuple[bytes | None, bool]:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            if data is not None:
                return bytes(data[:most]), False
            return None, self._packed(txn, hash) is not None

        self._know_later_tables()
        data, is_packed = self._rows.read(take, views=True)
        return self._environment.packs.first_bytes(hash, most) if is_packed else data

    def hashes(self) -> Iterator[Hash]:
        """As ``Store.blob_hashes``."""
        small = self._rows.scan("blobs", values=False)
        packed = self._rows.scan("packed", values=False)
        last = b""
        for key, _ in heapq.merge(small, packed):
            if key != last:
                yield Hash(key)
                last = key

    def sizes(self) -> Iterator[tuple[Hash, int]]:
        """As ``Store.blob_sizes``."""
        packed = (
            (key, self._packed_row(Hash(key), data).size) for key, data in self._rows.scan("packed")
        )
        last = b""
        for key, size in heapq.merge(self._rows.sizes("blobs"), packed):
            if key != last:
                yield Hash(key), size
                last = key

    def erased(self, hash: Hash) -> ErasedRow | None:
        """As ``Store.erased``."""
        if not self._rows.has("erased"):
            return None
        return self._rows.read(lambda txn: self._erased(txn, hash))

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        """As ``Store.erasures``."""
        for key, data in self._rows.scan("erased"):
            yield Hash(key), self._erased_row(Hash(key), data)

    def named(self, sha256: bytes) -> Hash | None:
        """As ``Store.named``."""
        if len(sha256) != HASH_BYTES or not self._rows.has("names"):
            return None
        found = self._rows.get("names", sha256)
        return None if found is None else Hash(found)

    def names(self) -> Iterator[Name]:
        """As ``Store.names``."""
        for key, data in self._rows.scan("names"):
            if len(key) != _WAITING_BYTES:
                yield Name(key, Hash(data))

    # Writing

    def unpacked(self, blobs: Mapping[Hash, bytes]) -> dict[Hash, bytes]:
        """Return those of ``blobs`` that need a pack and have none (ST-60)."""
        large = {key: data for key, data in blobs.items() if len(data) >= PACKED_BYTES}
        if not large:
            return large

        def take(txn: Txn) -> dict[Hash, bytes]:
            return {key: data for key, data in large.items() if self._packed(txn, key) is None}

        return self._rows.read(take)

    @contextlib.contextmanager
    def packing(self, packs: Mapping[Hash, bytes]) -> Iterator[PackChanges]:
        """Write packs before the transaction that names them, and remove packs after the
        transaction that removes their rows (ST-61, ST-63)."""
        self._environment.write_packs(packs)
        changes = PackChanges()
        try:
            yield changes
        except CommitFailed:
            raise  # the commit may be on the disk: the next writer sees which packs have rows
        except BaseException:
            self._environment.packs.remove(packs)
            raise
        self._environment.packs.remove(changes.gone | (packs.keys() - changes.named))

    def keep(self, txn: Txn, blobs: Mapping[Hash, bytes], changes: PackChanges) -> None:
        """Store the blobs that are not there yet. An erased one then counts as stored (ST-23)."""
        tables = self._environment.tables
        fresh: list[Hash] = []
        for key, data in blobs.items():
            if len(data) < PACKED_BYTES:
                is_new = txn.put(key, data, overwrite=False, db=tables["blobs"])
            elif _has(txn, key, tables["blobs"]):
                is_new = False  # an earlier release kept it there
            else:
                row = PackedRow(size=len(data)).to_bytes()
                is_new = txn.put(key, row, overwrite=False, db=tables["packed"])
                changes.name(key)
            if is_new:
                txn.delete(key, db=tables["erased"])
                fresh.append(key)
        for name, is_right in names_in(blobs, partial(self._true_of, txn)):
            if is_right:
                txn.put(name.sha256, name.blob, overwrite=False, db=tables["names"])
            else:
                txn.put(_waiting(name), b"", db=tables["names"])
        if txn.stat(tables["names"])["entries"]:
            for key in fresh:
                self._name_at_last(txn, key, blobs[key])

    def _name_at_last(self, txn: Txn, blob: Hash, data: bytes) -> None:
        """Store the names of a new blob whose name documents came before it (AG-35)."""
        table, names = self._environment.tables["names"], []
        with txn.cursor(db=table) as cursor:
            is_there = cursor.set_range(blob)
            while is_there and bytes(cursor.key()).startswith(blob):
                key = bytes(cursor.key())
                if len(key) == _WAITING_BYTES:
                    names.append(Name(key[HASH_BYTES:], blob))
                is_there = cursor.next()
        for name in names:
            txn.delete(_waiting(name), db=table)
            if name.is_of(data):
                txn.put(name.sha256, blob, overwrite=False, db=table)

    def _true_of(self, txn: Txn, hash: Hash) -> bytes | None:
        """Return the true name of a stored blob. It is remembered, because a guest may put many
        name documents for the same large blob, all with invalid names."""
        found = self._true.get(hash)
        if found is not None and (
            _has(txn, hash, self._environment.tables["blobs"])
            or self._packed(txn, hash) is not None
        ):
            return found
        data = self._kept(txn, hash)
        if data is None:
            return None
        if len(self._true) >= _TRUE_MAX:
            self._true.clear()
        self._true[hash] = found = true_sha256(data)
        return found

    def _kept(self, txn: Txn, hash: Hash) -> bytes | None:
        """Return the bytes of a stored blob, unchecked; None if they cannot be read."""
        data = txn.get(hash, db=self._environment.tables["blobs"])
        packed = self._packed(txn, hash)
        if data is not None or packed is None:
            return data
        try:
            return self._environment.packs.read(hash, packed.size)
        except Damage:
            return None  # a reader of that blob gets the error

    def erase(self, txn: Txn, value: Hash, seq: int, changes: PackChanges) -> None:
        """Remove the bytes of a value that record ``seq`` erases, and store its row (ST-22)."""
        tables = self._environment.tables
        data, before = txn.get(value, db=tables["blobs"]), self._erased(txn, value)
        packed = self._packed(txn, value)
        size = before.size if before else 0
        if data is not None:
            size = len(data)
        elif packed is not None:
            size = packed.size
        self.drop(txn, value, changes)
        txn.put(value, ErasedRow(seq=seq, size=size).to_bytes(), db=tables["erased"])

    def drop(self, txn: Txn, hash: Hash, changes: PackChanges) -> None:
        """Remove a blob, its pack and its name, without a row for it."""
        tables = self._environment.tables
        data = txn.get(hash, db=tables["blobs"])
        name = None if data is None else read_name(data)
        if name is not None:
            txn.delete(_waiting(name), db=tables["names"])
            if txn.get(name.sha256, db=tables["names"]) == name.blob:
                txn.delete(name.sha256, db=tables["names"])
        txn.delete(hash, db=tables["blobs"])
        if txn.delete(hash, db=tables["packed"]):
            changes.drop(hash)

    # Rows

    def _packed(self, txn: Txn, hash: Hash) -> PackedRow | None:
        table = self._environment.tables.get("packed")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self._packed_row(hash, data)

    def _packed_row(self, hash: Hash, data: bytes) -> PackedRow:
        return self._rows.named(f"blob {hash_text(hash)}", PackedRow.from_bytes, data)

    def _erased(self, txn: Txn, hash: Hash) -> ErasedRow | None:
        table = self._environment.tables.get("erased")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self._erased_row(hash, data)

    def _erased_row(self, hash: Hash, data: bytes) -> ErasedRow:
        return self._rows.named(f"erased value {hash_text(hash)}", ErasedRow.from_bytes, data)

    def _know_later_tables(self) -> None:
        """Open tables that a writer has made since this reader opened the store (ST-10a)."""
        for name in ("packed", "erased", "names"):
            self._rows.has(name)


_TRUE_MAX: Final = 4096
_WAITING_BYTES: Final = 2 * HASH_BYTES


def _waiting(name: Name) -> bytes:
    """The key of the row for a name document whose blob is not stored."""
    return name.blob + name.sha256


def _has(txn: Txn, key: bytes, table: Table) -> bool:
    with txn.cursor(db=table) as cursor:
        return cursor.set_key(key)
