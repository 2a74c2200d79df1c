"""Blobs in LMDB: small ones in a table or as deltas, large ones in packs, erased ones with their
row (spec/store.md, ST-20 to ST-23 and ST-60 to ST-67)."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from aos.errors import Damage
from aos.store.delta import DELTA_BYTES, DeltaRow
from aos.store.environment import Environment
from aos.store.errors import CommitFailed
from aos.store.lmdb_deltas import LmdbDeltas
from aos.store.lmdb_rows import LmdbRows
from aos.store.packs import PACKED_BYTES
from aos.store.rows import ErasedRow, PackedRow
from aos.store.store import checked_blob, names_in
from aos.values.digests import HASH_BYTES, Hash, hash_text
from aos.values.sha256 import Name, read_name, true_sha256

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Table, Txn

NO_BASES: Final[Mapping[Hash, Hash]] = MappingProxyType({})


@dataclass(slots=True)
class PackChanges:
    """The packs that a transaction gives a row, and those whose row it removes."""

    named_packs: set[Hash] = field(default_factory=set)
    dropped_packs: set[Hash] = field(default_factory=set)

    def name(self, hash: Hash) -> None:
        """A row now names the pack of this blob."""
        self.named_packs.add(hash)
        self.dropped_packs.discard(hash)

    def drop(self, hash: Hash) -> None:
        """No row names the pack of this blob any more."""
        self.dropped_packs.add(hash)
        self.named_packs.discard(hash)


class _BlobLookup(NamedTuple):
    """The bytes of a blob that is in the store's file, or the row that says where they are."""

    data: bytes | None = None
    packed: PackedRow | None = None
    erased: ErasedRow | None = None
    is_delta: bool = False


class LmdbBlobs:
    """The blobs of one store. Methods that write are called in a transaction and in ``packing``."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows
        self._deltas = LmdbDeltas(environment, rows)
        self._true: dict[Hash, bytes] = {}

    # Reading

    def read(self, hash: Hash) -> bytes:
        """Raises: Erased, Damage: As ``Store.blob``."""

        def take(txn: Txn) -> _BlobLookup:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            if data is not None:
                return _BlobLookup(data=data)
            row = self._deltas.row(txn, hash)
            if row is not None:
                return _BlobLookup(data=self._deltas.bytes_of(txn, hash, row), is_delta=True)
            packed = self._packed(txn, hash)
            return _BlobLookup(packed=packed, erased=None if packed else self._erased(txn, hash))

        self._know_later_tables()
        lookup = self._rows.read(take)
        for is_last in (False, False, True):
            if lookup.packed is None:
                break
            try:
                return self._environment.packs.read(hash, lookup.packed.size)
            except Damage:
                # A writer may have erased it after its row was read, and even stored it again
                # (ST-66).
                lookup = self._rows.read(take)
                if lookup.packed is not None and is_last:
                    raise
        data = checked_blob(lookup.data, hash, lookup.erased, self._environment.location)
        if lookup.is_delta:
            self._deltas.remember(hash, data)
        return data

    def has(self, hash: Hash) -> bool:
        """As ``Store.has_blob``."""

        def take(txn: Txn) -> bool:
            return (
                _has(txn, hash, tables["blobs"])
                or ("packed" in tables and _has(txn, hash, tables["packed"]))
                or self._deltas.has(txn, hash)
            )

        tables = self._environment.tables
        self._know_later_tables()
        return self._rows.read(take)

    def size(self, hash: Hash) -> int | None:
        """As ``Store.blob_size``."""

        def take(txn: Txn) -> int | None:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            if data is not None:
                return len(data)
            row = self._deltas.row(txn, hash) or self._packed(txn, hash)
            return None if row is None else row.size

        self._know_later_tables()
        return self._rows.read(take, views=True)

    def first_bytes(self, hash: Hash, bytes_max: int) -> bytes | None:
        """As ``Store.first_bytes``."""

        def take(txn: Txn) -> tuple[bytes | None, bool]:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            if data is not None:
                return bytes(data[:bytes_max]), False
            return None, self._packed(txn, hash) is not None

        self._know_later_tables()
        data, is_packed = self._rows.read(take, views=True)
        if is_packed:
            return self._environment.packs.first_bytes(hash, bytes_max)
        if data is None and self._rows.has("deltas"):
            data = self._rows.read(lambda txn: self._stored_bytes(txn, hash))
        return None if data is None else data[:bytes_max]

    def hashes(self) -> Iterator[Hash]:
        """As ``Store.blob_hashes``."""
        tables = ("blobs", "packed", "deltas")
        last = b""
        for key, _ in heapq.merge(*(self._rows.scan(name, values=False) for name in tables)):
            if key != last:
                yield Hash(key)
                last = key

    def sizes(self) -> Iterator[tuple[Hash, int]]:
        """As ``Store.blob_sizes``."""
        packed = (
            (key, self._packed_row(Hash(key), data).size) for key, data in self._rows.scan("packed")
        )
        deltas = (
            (key, self._deltas.read_row(Hash(key), data).size)
            for key, data in self._rows.scan("deltas")
        )
        last = b""
        for key, size in heapq.merge(self._rows.sizes("blobs"), packed, deltas):
            if key != last:
                yield Hash(key), size
                last = key

    def delta(self, hash: Hash) -> DeltaRow | None:
        """As ``Store.delta``."""
        if not self._rows.has("deltas"):
            return None
        return self._rows.read(lambda txn: self._deltas.row(txn, hash))

    def erased(self, hash: Hash) -> ErasedRow | None:
        """As ``Store.erased``."""
        if not self._rows.has("erased"):
            return None
        return self._rows.read(lambda txn: self._erased(txn, hash))

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        """As ``Store.erasures``."""
        for key, data in self._rows.scan("erased"):
            yield Hash(key), self._erased_row(Hash(key), data)

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        """As ``Store.named``."""
        if len(sha256) != HASH_BYTES or not self._rows.has("names"):
            return None
        row = self._rows.get("names", sha256)
        return None if row is None else Hash(row)

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
        self._environment.packs.remove(changes.dropped_packs | (packs.keys() - changes.named_packs))

    def keep(
        self,
        txn: Txn,
        blobs: Mapping[Hash, bytes],
        changes: PackChanges,
        replaced: Mapping[Hash, Hash] = NO_BASES,
    ) -> None:
        """Store the blobs that are not there yet. An erased one then counts as stored (ST-23).

        ``replaced`` names a blob that is like a new one: it may become the base of a delta (ST-90).
        """
        tables = self._environment.tables
        fresh: list[Hash] = []
        for key, data in blobs.items():
            if len(data) < DELTA_BYTES:
                is_new = txn.put(key, data, overwrite=False, db=tables["blobs"])
            elif len(data) < PACKED_BYTES:
                is_new = self._keep_large(txn, key, data, replaced.get(key))
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

    def _keep_large(self, txn: Txn, key: Hash, data: bytes, base: Hash | None) -> bool:
        """Store a blob as a delta if that is much smaller, else whole; False if it is there."""
        blobs = self._environment.tables["blobs"]
        if self._deltas.has(txn, key):
            return False
        if base is not None and not _has(txn, key, blobs):
            is_kept = self._deltas.put(txn, key, data, base)
            return is_kept or txn.put(key, data, db=blobs)
        return txn.put(key, data, overwrite=False, db=blobs)

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
        true_name = self._true.get(hash)
        if true_name is not None and (
            _has(txn, hash, self._environment.tables["blobs"])
            or self._packed(txn, hash) is not None
            or self._deltas.has(txn, hash)
        ):
            return true_name
        data = self._stored_bytes(txn, hash)
        if data is None:
            return None
        if len(self._true) >= _TRUE_MAX:
            self._true.clear()
        self._true[hash] = true_name = true_sha256(data)
        return true_name

    def _stored_bytes(self, txn: Txn, hash: Hash) -> bytes | None:
        """Return the bytes of a stored blob, unchecked; None if they cannot be read."""
        try:
            data, packed = self._in_file(txn, hash), self._packed(txn, hash)
            if data is not None or packed is None:
                return data
            return self._environment.packs.read(hash, packed.size)
        except Damage:
            return None  # a reader of that blob gets the error

    def _in_file(self, txn: Txn, hash: Hash) -> bytes | None:
        """Return the bytes of a blob that is in the store's file, whole or as a delta; None if
        there is none. Raises: Damage: It cannot be rebuilt."""
        data = txn.get(hash, db=self._environment.tables["blobs"])
        if data is not None:
            return data
        row = self._deltas.row(txn, hash)
        return None if row is None else self._deltas.bytes_of(txn, hash, row)

    def made_whole_bytes(self, values: Iterable[Hash]) -> int:
        """How many bytes erasing these values would write (ST-93)."""
        return self._rows.read(lambda txn: self._deltas.made_whole_bytes(txn, values))

    def erase(self, txn: Txn, value: Hash, seq: int, changes: PackChanges) -> None:
        """Remove the bytes of a value that record ``seq`` erases, and store its row (ST-22). The
        deltas on it are written whole first (ST-93)."""
        tables = self._environment.tables
        data, erased_row = txn.get(value, db=tables["blobs"]), self._erased(txn, value)
        packed = self._packed(txn, value)
        size = erased_row.size if erased_row else 0
        if data is not None:
            size = len(data)
        elif packed is not None:
            size = packed.size
        elif (row := self._deltas.row(txn, value)) is not None:
            size = row.size
        self._deltas.make_whole(txn, value)
        self.drop(txn, value, changes)
        txn.put(value, ErasedRow(seq=seq, size=size).to_bytes(), db=tables["erased"])

    def forget(self, txn: Txn, hashes: Sequence[Hash], changes: PackChanges) -> int:
        """Remove blobs, except those on which a delta depends that stays (ST-92). Return how many
        stay."""
        staying = 0
        for hash in self._deltas.last_first(txn, hashes):
            if self._deltas.is_base(txn, hash):
                staying += 1
            else:
                self.drop(txn, hash, changes)
        return staying

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
        self._deltas.drop(txn, hash)
        if txn.delete(hash, db=tables["packed"]):
            changes.drop(hash)

    # Rows

    def _packed(self, txn: Txn, hash: Hash) -> PackedRow | None:
        table = self._environment.tables.get("packed")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self._packed_row(hash, data)

    def _packed_row(self, hash: Hash, data: bytes) -> PackedRow:
        return self._rows.decode_row(f"blob {hash_text(hash)}", PackedRow.from_bytes, data)

    def _erased(self, txn: Txn, hash: Hash) -> ErasedRow | None:
        table = self._environment.tables.get("erased")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self._erased_row(hash, data)

    def _erased_row(self, hash: Hash, data: bytes) -> ErasedRow:
        return self._rows.decode_row(f"erased value {hash_text(hash)}", ErasedRow.from_bytes, data)

    def _know_later_tables(self) -> None:
        """Open tables that a writer has made since this reader opened the store (ST-10a)."""
        if not self._environment.tables.keys() >= _LATER:
            for name in _LATER:
                self._rows.has(name)


_LATER: Final = frozenset({"packed", "erased", "names", "deltas"})
"""Tables of blobs that the store of an earlier release may lack."""

_TRUE_MAX: Final = 4096
_WAITING_BYTES: Final = 2 * HASH_BYTES


def _waiting(name: Name) -> bytes:
    """The key of the row for a name document whose blob is not stored."""
    return name.blob + name.sha256


def _has(txn: Txn, key: bytes, table: Table) -> bool:
    with txn.cursor(db=table) as cursor:
        return cursor.set_key(key)
