"""Records -> the derived rows that the store should have, to compare them with or to make them
again (spec/store.md, ST-31 to ST-34).

This is a second way to the same rows: ``append`` writes the intents that the core reports as opened
and settled, this module reads them off the stored records. ``aos verify`` compares the two;
``aos rebuild`` makes the stored rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from aos.core.journal.identity import submission_hash
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Control,
    Event,
    Fork,
    KernelReceipt,
    Receipt,
    Record,
    Snapshot,
    Step,
    slot_hash,
)
from aos.core.pending import receipt_digest
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import Damage, Refused
from aos.store.rows import (
    ErasedRow,
    IntentRow,
    SnapshotRow,
    SubmissionRow,
    seq_key,
    submission_key,
)
from aos.store.store import Store, checked_blob, erased_error
from aos.values.digests import Hash, hash_text
from aos.values.sha256 import NAME_BYTES, Name, read_name, true_sha256

if TYPE_CHECKING:
    from aos.store.lmdb_store import LmdbStore


TRUE_KEPT: Final = 65_536
"""True names that are remembered: many documents may speak of one large blob."""

TABLES: Final = ("intents", "submissions", "erased", "snapshots")
"""The tables that are made again. Rows of puts, packs and names are not made from records."""


@dataclass(slots=True)
class DerivedRows:
    """The rows that the records up to ``seq`` make.

    ``erased`` has the newest record that erases a value. Whether its bytes came again, records do
    not tell.
    """

    seq: int = 0
    intents: dict[Hash, IntentRow] = field(default_factory=dict)
    submissions: dict[str, SubmissionRow] = field(default_factory=dict)
    erased: dict[Hash, int] = field(default_factory=dict)
    snapshots: dict[int, SnapshotRow] = field(default_factory=dict)
    leftover: int = 0
    """Rows of records up to this one may be there still: they are about to be taken away."""

    def __len__(self) -> int:
        return len(self.intents) + len(self.submissions) + len(self.erased) + len(self.snapshots)

    def take(self, record: Record) -> None:
        """Take the next record.

        Raises:
            Damage: It has another sequence, or ends an intent that no record opened.
        """
        if record.seq != self.seq + 1:
            raise Damage(f"record {self.seq + 1} calls itself record {record.seq}")
        self.seq = record.seq
        match record:
            case Step():
                for index, intent in enumerate(record.intents):
                    if intent.intent in self.intents:
                        raise Damage(f"record {record.seq} opens an intent a second time")
                    self.intents[intent.intent] = IntentRow(opened_seq=record.seq, index=index)
                self._abandon(record.abandoned)
            case Receipt() | KernelReceipt():
                self._settle(record)
                self._abandon(record.abandoned)
            case Control(action=action, value=bytes(value)) if action == ERASE:
                self.erased[Hash(value)] = record.seq
            case Control():
                self._abandon(record.abandoned)
            case Fork():
                self.erased.update(dict.fromkeys(record.erased, record.seq))
            case Snapshot():
                row = SnapshotRow(at=record.at, seq=record.seq, document=record.document.hash)
                self.snapshots[record.at] = row
            case Event(submission_id=str(name)):
                payload = submission_hash(record.schema, slot_hash(record.value))
                self.submissions[name] = SubmissionRow(
                    submission_id=name, seq=record.seq, payload=payload
                )
            case _:
                pass

    def _settle(self, record: Receipt | KernelReceipt) -> None:
        row = self._intent_row(record.intent)
        if row.settled_seq is not None:
            raise Damage(
                f"record {record.seq} settles an intent that record {row.settled_seq} settled"
            )
        self.intents[record.intent] = row._replace(
            settled_seq=record.seq, receipt_digest=receipt_digest(record)
        )

    def _abandon(self, intents: Iterable[Hash]) -> None:
        for intent in intents:
            self.intents[intent] = self._intent_row(intent)._replace(abandoned=True)

    def _intent_row(self, intent: Hash) -> IntentRow:
        row = self.intents.get(intent)
        if row is None:
            raise Damage(f"record {self.seq} ends {hash_text(intent)}, which no record opened")
        return row


def rows_at(state: State, erased: Mapping[Hash, int]) -> DerivedRows:
    """The rows that are kept where all records to the end of ``state`` were pruned: of open and
    abandoned intents, and of the dedup window. ``erased`` are those of erased values."""
    rows = DerivedRows(seq=state.next_seq - 1, erased=dict(erased))
    for intents, is_abandoned in ((state.intents, False), (state.abandoned, True)):
        for intent in intents.values():
            rows.intents[intent.intent] = IntentRow(
                opened_seq=intent.seq, index=intent.index, abandoned=is_abandoned
            )
    for name, event in state.submissions.items():
        rows.submissions[name] = SubmissionRow(
            submission_id=name, seq=event.seq, payload=event.payload
        )
    return rows


def differences(store: Store, rows: DerivedRows) -> Iterator[str]:
    """Yield, one sentence each, where the stored rows differ from ``rows`` (ST-33).

    Rows that newer records than ``rows.seq`` touched are left out, so that a world may be verified
    while it runs; one that names a record behind the head differs.
    """
    matched_count = 0
    for intent, stored in store.intents():
        if stored.opened_seq > rows.seq:
            if intent in rows.intents or _is_beyond(store, stored.opened_seq):
                yield f"intent {hash_text(intent)} has a row that names record {stored.opened_seq}"
            continue
        matched_count += intent in rows.intents
        derived = rows.intents.get(intent)
        if derived is None and stored.opened_seq <= rows.leftover:
            continue
        if derived is None:
            yield f"intent {hash_text(intent)} has a row, and record {stored.opened_seq} opens none"
        elif stored != derived and not _is_newer(store, stored, derived, rows.seq):
            yield (
                f"intent {hash_text(intent)}: expected {_row_text(derived)}, found "
                f"{_row_text(stored)}"
            )
    if matched_count < len(rows.intents):
        for intent, expected in rows.intents.items():
            if store.intent(intent) is None:
                yield f"intent {hash_text(intent)} has no row: expected {_row_text(expected)}"
    yield from _submission_differences(store, rows)
    yield from _erased_differences(store, rows)
    yield from _snapshot_differences(store, rows)
    yield from _name_differences(store)


def _is_newer(store: Store, stored: IntentRow, expected: IntentRow, seq: int) -> bool:
    """Whether records after ``seq`` can have made ``stored`` out of ``expected``."""
    settled = stored.settled_seq
    if settled is not None and settled > seq and not _is_beyond(store, settled):
        stored = stored._replace(settled_seq=None, receipt_digest=None)
    if stored.abandoned and not expected.abandoned:
        # The row does not say which record abandoned it.
        head = store.head()
        if head is not None and head.seq > seq:
            stored = stored._replace(abandoned=False)
    return stored == expected


def _is_beyond(store: Store, seq: int) -> bool:
    """Whether there is no such record, even by now. The row was read before, so a world that runs
    cannot be why."""
    head = store.head()
    return head is None or seq > head.seq


def _row_text(row: IntentRow) -> str:
    text = f"opened by record {row.opened_seq} as number {row.index}"
    if row.settled_seq is not None:
        text += f", settled by record {row.settled_seq}"
    return f"{text}, abandoned" if row.abandoned else text


def _submission_differences(store: Store, rows: DerivedRows) -> Iterator[str]:
    matched_count = 0
    for stored in store.submissions():
        if stored.seq > rows.seq:
            if _is_beyond(store, stored.seq):
                yield (
                    f"submission {stored.submission_id!r} has a row that names record {stored.seq}"
                )
            matched_count += stored.submission_id in rows.submissions
            continue
        derived = rows.submissions.get(stored.submission_id)
        matched_count += derived is not None
        if derived is None and stored.seq <= rows.leftover:
            continue
        if derived is None:
            yield f"submission {stored.submission_id!r} has a row, and no record came under it"
        elif stored != derived:
            yield (
                f"submission {stored.submission_id!r}: expected record {derived.seq} "
                f"and payload {hash_text(derived.payload)}, found record {stored.seq} "
                f"and payload {hash_text(stored.payload)}"
            )
    if matched_count < len(rows.submissions):
        for name, expected in rows.submissions.items():
            if store.submission(name) is None:
                yield f"submission {name!r} has no row: expected record {expected.seq}"


def _erased_differences(store: Store, rows: DerivedRows) -> Iterator[str]:
    """A value that was erased has its row, or its bytes again; never both."""
    for value, stored in store.erasures():
        if stored.seq > rows.seq:
            if _is_beyond(store, stored.seq):
                yield f"value {hash_text(value)} has a row that names record {stored.seq}"
            continue
        derived = rows.erased.get(value)
        if derived is None:
            yield f"value {hash_text(value)} has a row, and record {stored.seq} does not erase it"
        elif stored.seq != derived:
            yield (
                f"value {hash_text(value)}: expected erased by record {derived}, "
                f"found by record {stored.seq}"
            )
        elif store.has_blob(value) and store.erased(value) == stored:
            yield f"value {hash_text(value)} is erased by record {derived}, and its bytes are there"
    for value, seq in rows.erased.items():
        if not (store.erased(value) or store.has_blob(value) or store.erased(value)):
            # Asked twice: between the first two questions a newer record may have erased it again.
            yield f"value {hash_text(value)} has no row: expected erased by record {seq}"


def _snapshot_differences(store: Store, rows: DerivedRows) -> Iterator[str]:
    """Rows of old snapshots may be gone with them. The newest has its own."""
    newest = max(rows.snapshots, default=None)
    for stored in store.snapshots():
        if stored.at == newest:
            newest = None
        if stored.seq > rows.seq:
            newest = None
            if _is_beyond(store, stored.seq):
                yield f"the snapshot after record {stored.at} has a row that names {stored.seq}"
        elif stored.at < rows.leftover:
            continue
        elif stored != rows.snapshots.get(stored.at):
            yield (
                f"the snapshot after record {stored.at} has a row, and record {stored.seq} does "
                "not say of it"
            )
    if newest is not None:
        yield f"the snapshot after record {newest} has no row, and it is the newest"


def _name_differences(store: Store) -> Iterator[str]:
    """Each name has its document, and is that of its blob; each document that is right is known.
    Damage of a blob itself is reported elsewhere."""
    true_of = lru_cache(TRUE_KEPT)(partial(_true_name, store))
    document_hashes = set()
    for name in store.names():
        document_hashes.add(name.hash)
        name_text = f"sha256:{name.sha256.hex()}"
        if not (store.has_blob(name.hash) or store.hash_by_sha256(name.sha256) != name.blob):
            yield f"{name_text} has a row, and no document says so"
        elif not (name.is_given or true_of(name.blob) in (None, name.sha256)):
            yield f"{name_text} has a row, and is not the name of {hash_text(name.blob)}"
    for hash, size in store.blob_sizes():
        if size == NAME_BYTES and hash not in document_hashes:
            document_name = _name_document(store, hash)
            is_right = document_name is not None and (
                document_name.is_given or true_of(document_name.blob) == document_name.sha256
            )
            if (
                document_name is not None
                and is_right
                and store.hash_by_sha256(document_name.sha256) is None
                and store.has_blob(hash)
            ):
                yield f"sha256:{document_name.sha256.hex()} has a document, and no row"


def _true_name(store: Store, blob: Hash) -> bytes | None:
    """The true name of a blob; None where it was erased, or is missing, or altered."""
    try:
        return true_sha256(store.blob(blob))
    except Damage:
        return None


def _name_document(store: Store, hash: Hash) -> Name | None:
    try:
        return read_name(store.blob(hash))
    except Damage:
        return None


class RebuiltStore:
    """A store as it would be with the derived rows that its records make (ST-34). Everything else
    is read from the store itself; nothing is written.

    Raises:
        Refused: A prune of the journal is not complete: its rows are about to be removed.
        Damage: A record cannot be read, or cannot follow those before it.
    """

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self._rows = _rows_of_records(store)
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
        return ErasedRow(seq=seq, size=_erased_size(self._store, hash))

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


def _rows_of_records(store: LmdbStore) -> DerivedRows:
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


def _erased_size(store: LmdbStore, value: Hash) -> int:
    """The size of an erased value as its row has it; 0 if there is no row that can be read."""
    try:
        row = store.erased(value)
    except Damage:
        return 0
    return 0 if row is None else row.size
