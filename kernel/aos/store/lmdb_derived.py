"""Derived rows in LMDB: of intents, submissions, snapshots and puts (spec/store.md, ST-30).

Blobs have rows of their own (``lmdb_blobs``), of large and of erased ones. The methods that take a
transaction write, or read in the middle of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from aos.store.environment import Environment
from aos.store.lmdb_rows import LmdbRows
from aos.store.rows import IntentRow, PutRow, SnapshotRow, SubmissionRow, seq_key, submission_key
from aos.values.digests import Hash, hash_text

if TYPE_CHECKING:
    from aos.store.forget import Forget
    from aos.store.lmdb_types import Txn

_REBUILD: Final = "aos rebuild makes the row again from the journal"
SEQ_MAX: Final = 2**64 - 1


class LmdbDerivedRows:
    """The derived rows of one store (ST-30): intents, submissions, snapshots and puts. A method
    that writes gets the transaction of which the rows are a part."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows

    # Reading

    def intent(self, hash: Hash) -> IntentRow | None:
        """As ``Store.intent``."""
        return self._rows.read(lambda txn: self.intent_in(txn, hash))

    def intent_in(self, txn: Txn, hash: Hash) -> IntentRow | None:
        """Return the row of an intent, in a transaction."""
        data = txn.get(hash, db=self._environment.tables["intents"])
        return None if data is None else self._intent(hash, data)

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        """As ``Store.intents``."""
        for key, data in self._rows.scan("intents"):
            yield Hash(key), self._intent(Hash(key), data)

    def submission(self, submission_id: str) -> SubmissionRow | None:
        """As ``Store.submission``."""
        key = submission_key(submission_id)
        if key is None:
            return None
        data = self._rows.get("submissions", key)
        return None if data is None else self._submission(key, data)

    def submissions(self) -> Iterator[SubmissionRow]:
        """As ``Store.submissions``."""
        for key, data in self._rows.scan("submissions"):
            yield self._submission(key, data)

    def snapshots(self) -> Iterator[SnapshotRow]:
        """As ``Store.snapshots``."""
        for key, data in self._rows.scan("snapshots"):
            yield self._snapshot(key, data)

    def snapshot_before(self, seq: int | None) -> SnapshotRow | None:
        """As ``Store.snapshot_before``."""
        if not self._rows.has("snapshots"):
            return None
        least = seq_key(SEQ_MAX if seq is None else min(max(seq, 0), SEQ_MAX))

        def take(txn: Txn) -> tuple[bytes, bytes] | None:
            with txn.cursor(db=self._environment.tables["snapshots"]) as cursor:
                is_there = cursor.set_range(least)
                if not is_there or cursor.key() != least:
                    is_there = cursor.prev() if is_there else cursor.last()
                return cursor.item() if is_there else None

        row = self._rows.read(take)
        return None if row is None else self._snapshot(*row)

    def puts(self) -> Iterator[PutRow]:
        """As ``Store.puts``."""
        for key, data in self._rows.scan("puts"):
            yield self._rows.decode_row(f"put {key.hex()}", partial(PutRow.from_bytes, key), data)

    # Writing

    def put(
        self,
        txn: Txn,
        *,
        intents: Iterable[tuple[Hash, IntentRow]],
        submissions: Iterable[SubmissionRow],
        snapshots: Iterable[SnapshotRow],
    ) -> None:
        """Store the rows that a commit group makes, in the transaction of the group (ST-31)."""
        tables = self._environment.tables
        for intent, row in intents:
            txn.put(intent, row.to_bytes(), db=tables["intents"])
        for submission in submissions:
            txn.put(submission.key, submission.to_bytes(), db=tables["submissions"])
        for snapshot in snapshots:
            txn.put(seq_key(snapshot.at), snapshot.to_bytes(), db=tables["snapshots"])

    def add_puts(self, txn: Txn, rows: Iterable[PutRow]) -> None:
        """Store rows of blobs that instances put in pruned records (RT-24)."""
        for row in rows:
            txn.put(row.key, row.to_bytes(), db=self._environment.tables["puts"])

    def forget(self, txn: Txn, removal: Forget) -> None:
        """Remove the rows that ``removal`` names, its blobs apart."""
        tables = self._environment.tables
        submissions = [submission_key(submission_id) for submission_id in removal.submissions]
        for table, keys in (
            ("intents", removal.intents),
            ("submissions", [key for key in submissions if key is not None]),
            ("erased", removal.erased),
            ("snapshots", [seq_key(at) for at in removal.snapshots]),
            ("puts", removal.puts),
        ):
            for key in keys:
                txn.delete(key, db=tables[table])

    # Rows

    def _intent(self, hash: Hash, data: bytes) -> IntentRow:
        subject = f"intent {hash_text(hash)}"
        return self._rows.decode_row(subject, IntentRow.from_bytes, data, hint=_REBUILD)

    def _submission(self, key: bytes, data: bytes) -> SubmissionRow:
        read = partial(SubmissionRow.from_bytes, key)
        return self._rows.decode_row(f"submission {key!r}", read, data, hint=_REBUILD)

    def _snapshot(self, key: bytes, data: bytes) -> SnapshotRow:
        read = partial(SnapshotRow.from_bytes, key)
        return self._rows.decode_row(f"snapshot {key.hex()}", read, data, hint=_REBUILD)
