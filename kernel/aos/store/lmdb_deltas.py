"""Deltas in LMDB: blobs that are kept as their difference from another blob, and which blobs these
depend on (spec/store.md, ST-90 to ST-95).

The table ``deltas`` has a ``DeltaRow`` for each such blob. The table ``bases`` has a row without a
value for each of them, whose key is the base's hash followed by its own: so a base cannot leave the
store without the blobs that need it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aos.errors import Damage
from aos.store.delta import CHAIN_MAX, DeltaRow, delta_of, may_be_delta
from aos.store.environment import Environment
from aos.store.lmdb_rows import LmdbRows
from aos.values.digests import HASH_BYTES, Hash, hash_text

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Txn

RECENT_BYTES: Final = 8 << 20
"""Bytes of recent blobs that stay in memory: a base is mostly the blob that was stored last."""


class LmdbDeltas:
    """The deltas of one store. Every method gets the transaction that it reads or writes in."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows
        self._recent = _Recent()

    # Reading

    def has(self, txn: Txn, hash: Hash) -> bool:
        """Whether a blob is kept as a delta."""
        table = self._environment.tables.get("deltas")
        return table is not None and txn.get(hash, db=table) is not None

    def row(self, txn: Txn, hash: Hash) -> DeltaRow | None:
        """Return the row of a blob; None if it is whole or not there. Raises: Damage."""
        table = self._environment.tables.get("deltas")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self.read_row(hash, data)

    def read_row(self, hash: Hash, data: bytes) -> DeltaRow:
        """Return the row that has the value ``data``. Raises: Damage."""
        return self._rows.decode_row(f"blob {hash_text(hash)}", DeltaRow.from_bytes, data)

    def bytes_of(self, txn: Txn, hash: Hash, row: DeltaRow) -> bytes:
        """Rebuild a blob from its row and the blobs that it depends on (ST-91). Its hash is not
        checked, unless it was stored or rebuilt recently.

        Raises:
            Damage: One of the rows cannot be read, or a base is missing.
        """
        recent = self._recent.get(hash)
        if recent is not None:
            return recent
        rows = [row]
        base = self._recent.get(row.base)
        while base is None and (below := self.row(txn, rows[-1].base)) is not None:
            if below.chain >= rows[-1].chain:
                raise self._damage(hash, "a delta depends on one with a longer chain")
            rows.append(below)
            base = self._recent.get(below.base)
        if base is None:
            base = txn.get(rows[-1].base, db=self._environment.tables["blobs"])
        if base is None:
            raise self._damage(hash, f"its base {hash_text(rows[-1].base)} is missing")
        for delta in reversed(rows):
            base = self._rows.decode_row(f"blob {hash_text(hash)}", delta.applied, base)
        return base

    def _damage(self, hash: Hash, problem: str) -> Damage:
        location = self._environment.location
        return Damage(
            f"blob {hash_text(hash)}: {problem}", location=location, hint="restore a backup"
        )

    def remember(self, hash: Hash, data: bytes) -> None:
        """Keep the bytes of a blob in memory. They must have this hash."""
        if may_be_delta(data):
            self._recent.put(hash, data)

    def dependents(self, txn: Txn, base: Hash) -> Iterator[Hash]:
        """Yield the blobs that depend directly on ``base``. The caller must not change the table
        before the end."""
        table = self._environment.tables.get("bases")
        if table is None:
            return
        with txn.cursor(db=table) as cursor:
            is_there = cursor.set_range(base)
            while is_there and bytes(cursor.key()[:HASH_BYTES]) == base:
                yield Hash(bytes(cursor.key()[HASH_BYTES:]))
                is_there = cursor.next()

    def is_base(self, txn: Txn, hash: Hash) -> bool:
        """Whether a delta depends on this blob."""
        return next(self.dependents(txn, hash), None) is not None

    def made_whole_bytes(self, txn: Txn, bases: Iterable[Hash]) -> int:
        """How many bytes ``make_whole`` would write for these blobs."""
        rows = (
            self.row(txn, dependent)
            for base in bases
            for dependent in list(self.dependents(txn, base))
        )
        return sum(row.size for row in rows if row is not None)

    def last_first(self, txn: Txn, hashes: Sequence[Hash]) -> Sequence[Hash]:
        """Return ``hashes`` in an order in which each comes before those that it depends on."""
        table = self._environment.tables["deltas"]
        if not txn.stat(table)["entries"]:
            return hashes
        return sorted(hashes, key=lambda blob_hash: -self._chain(txn, blob_hash))

    def _chain(self, txn: Txn, hash: Hash) -> int:
        try:
            row = self.row(txn, hash)
        except Damage:
            return 0
        return 0 if row is None else row.chain

    # Writing

    def put(self, txn: Txn, hash: Hash, data: bytes, base: Hash) -> bool:
        """Keep a blob that is not there yet as a delta on ``base``; False if it must be kept whole
        (ST-90)."""
        row = self._delta_row(txn, data, base)
        self._recent.put(hash, data)  # the next state of the same instance is a delta on it
        if row is None:
            return False
        tables = self._environment.tables
        self._environment.need_deltas(txn)
        txn.put(hash, row.to_bytes(), db=tables["deltas"])
        txn.put(base + hash, b"", db=tables["bases"])
        return True

    def _delta_row(self, txn: Txn, data: bytes, base: Hash) -> DeltaRow | None:
        try:
            below = self.row(txn, base)
            if below is None:
                base_bytes = txn.get(base, db=self._environment.tables["blobs"])
            elif below.chain < CHAIN_MAX:
                base_bytes = self.bytes_of(txn, base, below)
            else:
                return None
        except Damage:
            return None  # a reader of the base gets the error
        if base_bytes is None or not may_be_delta(base_bytes):
            return None
        parts = delta_of(data, base_bytes)
        if parts is None:
            return None
        chain = 1 if below is None else below.chain + 1
        row = DeltaRow(base=base, size=len(data), chain=chain, parts=parts)
        assert row.applied(base_bytes) == data, (
            f"a delta that does not make {len(data)} bytes again"
        )
        return row

    def drop(self, txn: Txn, hash: Hash) -> None:
        """Remove the delta of a blob on which no other depends; a whole blob has none."""
        tables = self._environment.tables
        self._recent.drop(hash)
        with contextlib.suppress(Damage):  # the base of such a row is not known
            row = self.row(txn, hash)
            if row is None:
                return
            txn.delete(row.base + hash, db=tables["bases"])
        txn.delete(hash, db=tables["deltas"])

    def make_whole(self, txn: Txn, base: Hash) -> None:
        """Write the blobs whole that depend directly on ``base``, which is about to leave (ST-93).

        A blob that cannot be rebuilt stays as it is: a reader of it gets the error.
        """
        tables = self._environment.tables
        for hash in list(self.dependents(txn, base)):
            with contextlib.suppress(Damage):
                row = self.row(txn, hash)
                if row is not None:
                    txn.put(hash, self.bytes_of(txn, hash, row), db=tables["blobs"])
                    txn.delete(hash, db=tables["deltas"])
                txn.delete(base + hash, db=tables["bases"])


class _Recent:
    """Recent blobs by hash, up to ``RECENT_BYTES``, for any thread. That a blob is here does not
    mean that the store has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blobs: OrderedDict[Hash, bytes] = OrderedDict()
        self._size = 0

    def get(self, hash: Hash) -> bytes | None:
        with self._lock:
            blob = self._blobs.get(hash)
            if blob is not None:
                self._blobs.move_to_end(hash)
            return blob

    def put(self, hash: Hash, data: bytes) -> None:
        with self._lock:
            self._remove(hash)
            self._blobs[hash] = data
            self._size += len(data)
            while self._size > RECENT_BYTES:
                self._remove(next(iter(self._blobs)))

    def drop(self, hash: Hash) -> None:
        with self._lock:
            self._remove(hash)

    def _remove(self, hash: Hash) -> None:
        self._size -= len(self._blobs.pop(hash, b""))
