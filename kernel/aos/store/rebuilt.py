"""Make the derived rows of a store again from its records (spec/store.md, ST-34)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from aos.core.journal.record_codec import from_bytes
from aos.core.snapshot.load import load
from aos.errors import Damage, Refused
from aos.store.derived import DerivedRows, rows_at
from aos.store.rows import (
    ErasedRow,
    IntentRow,
    SnapshotRow,
    SubmissionRow,
    seq_key,
    submission_key,
)
from aos.store.store import checked_blob, erased_error
from aos.values.digests import Hash

if TYPE_CHECKING:
    from aos.store.lmdb_store import LmdbStore

TABLES: Final = ("intents", "submissions", "erased", "snapshots")
"""The tables that are made again. Rows of puts, packs and names are not made from records."""


class RebuiltStore:
    """A store as it would be with the derived rows that its records make. Everything else is read
    from the store itself; nothing is written.

    Raises:
        Refused: A prune of the journal is not complete: its rows are about to be removed.
        Damage: A record cannot be read, or cannot follow those before it.
    """

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self._rows = _rows_of(store)
        stored_keys = set(store.row_keys("snapshots"))
        newest = max(self._rows.snapshots, default=None)
        self._snapshots = {
            at: row
            for at, row in sorted(self._rows.snapshots.items())
            if at == newest or seq_key(at) in stored_keys
        }
        """The rows of the other old snapshots went with these snapshots."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def blob(self, hash: Hash) -> bytes:
        """As ``Store.blob``."""
        if self._store.has_blob(hash):
            return self._store.blob(hash)
        erased = self._rows.erased.get(hash)
        if erased is not None:
            raise erased_error(hash, erased)
        return checked_blob(None, hash, None, self._store.location)

    def intent(self, hash: Hash) -> IntentRow | None:
        return self._rows.intents.get(hash)

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        yield from self._rows.intents.items()

    def submission(self, submission_id: str) -> SubmissionRow | None:
        return self._rows.submissions.get(submission_id)

    def submissions(self) -> Iterator[SubmissionRow]:
        yield from self._rows.submissions.values()

    def erased(self, hash: Hash) -> ErasedRow | None:
        seq = self._rows.erased.get(hash)
        if seq is None or self._store.has_blob(hash):
            return None
        return ErasedRow(seq=seq, size=_size(self._store, hash))

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        for value in self._rows.erased:
            row = self.erased(value)
            if row is not None:
                yield value, row

    def snapshots(self) -> Iterator[SnapshotRow]:
        yield from self._snapshots.values()

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None:
        seqs = [at for at in self._snapshots if seq is None or at <= seq]
        return self._snapshots[seqs[-1]] if seqs else None

    def tables(self) -> dict[str, Mapping[bytes, bytes]]:
        """Return the tables of ``TABLES`` as they should be stored."""
        submissions = ((submission_key(row.submission_id), row) for row in self.submissions())
        return {
            "intents": {intent: row.to_bytes() for intent, row in self.intents()},
            "submissions": {key: row.to_bytes() for key, row in submissions if key is not None},
            "erased": {value: row.to_bytes() for value, row in self.erasures()},
            "snapshots": {seq_key(row.at): row.to_bytes() for row in self.snapshots()},
        }


def _rows_of(store: LmdbStore) -> DerivedRows:
    cut = store.cut()
    rows = DerivedRows()
    if cut is not None:
        if not cut.is_done:
            raise Refused(
                f"{store.location}: its journal is being pruned (complete that first: aos journal "
                "prune); nothing was changed"
            )
        rows = rows_at(load(cut.document, store.blob), dict(_erased_by(store, cut.seq)))
    for frame in store.frames(rows.seq + 1):
        for data in frame.records:
            rows.take(from_bytes(data))
    return rows


def _erased_by(store: LmdbStore, last: int) -> Iterator[tuple[Hash, int]]:
    """Yield the values that a pruned record erased: only their rows tell."""
    for key in store.row_keys("erased"):
        try:
            row = store.erased(Hash(key))
        except Damage:
            continue
        if row is not None and row.seq <= last:
            yield Hash(key), row.seq


def _size(store: LmdbStore, value: Hash) -> int:
    """The size of an erased value as its row has it; 0 if there is no row that can be read."""
    try:
        row = store.erased(value)
    except Damage:
        return 0
    return 0 if row is None else row.size
