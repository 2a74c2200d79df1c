"""The journal in LMDB: frames, the signed head, the cut where a pruned journal begins, and the rows
derived from its records.

``LmdbFrames`` has the tables ``frames`` and ``system`` (spec/store.md, ST-1, ST-2 and ST-6),
``LmdbDerivedRows`` those of intents, submissions, snapshots and puts (ST-30). Blobs have rows of
their own (``lmdb_blobs``), of large and of erased ones.

The methods that take a transaction write, or read in the middle of a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from aos.core.journal.frame import Frame, Head, StoredFrame, read_frame, stored_frame
from aos.errors import Damage
from aos.store.cut import Cut
from aos.store.environment import Environment
from aos.store.lmdb_rows import LmdbRows, drop_rows
from aos.store.rows import IntentRow, PutRow, SnapshotRow, SubmissionRow, seq_key, submission_key
from aos.store.store import IntentChanges, is_pruned, missing_frame, opened_already
from aos.values.digests import Hash, hash_text

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Txn
    from aos.store.rows import Forget


SLICE_FRAMES: Final = 64
SLICE_BYTES: Final = 4 * 1024 * 1024
"""Limits of one read transaction: it ends with the frame that reaches one of them. Copying that
much takes a few milliseconds."""

RECENT_MAX: Final = 4096
"""Rows of open intents that are kept, so that the receipt that follows need not read them. With
more, all are forgotten."""

SEQ_MAX: Final = 2**64 - 1

_HEAD: Final = b"head"
_CUT: Final = b"cut"
_REBUILD_HINT: Final = "aos rebuild makes the row again from the journal"


class LmdbFrames:
    """The frames of one store, its head and its cut. One transaction writes frames and their
    head (ST-1)."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows

    # Reading

    def head(self) -> Head | None:
        """As ``Store.head``."""
        return self._rows.read(self.head_in)

    def head_in(self, txn: Txn) -> Head | None:
        """Return the head, in a transaction."""
        data = txn.get(_HEAD, db=self._environment.tables["system"])
        return None if data is None else self._rows.decode_row("the head", Head.from_bytes, data)

    def cut(self) -> Cut | None:
        """As ``Store.cut``."""
        return self._rows.read(self._cut)

    def frames(self, first_seq: int, last_seq: int | None) -> Iterator[Frame]:
        """As ``Store.frames``."""
        for stored in self.stored_frames(first_seq, last_seq):
            yield self._frame(stored.first, stored.data)

    def stored_frames(self, first_seq: int, last_seq: int | None) -> Iterator[StoredFrame]:
        """As ``Store.stored_frames``."""
        head = self.head()
        if head is None:
            return
        seq = max(first_seq, 1)
        last = head.seq if last_seq is None else min(last_seq, head.seq)
        location = self._environment.location
        while seq <= last:
            rows, cut = self._slice(seq, last)
            if not rows:
                raise missing_frame(seq, head, cut, location)
            for key, data in rows:
                stored = stored_frame(data)
                first = int.from_bytes(key, "big")
                if stored is None or stored.first != first or not first <= seq <= stored.last:
                    self._frame(first, data)  # a frame that cannot be read is damage of its own
                    raise missing_frame(seq, head, cut, location)
                if is_pruned(first, cut):
                    raise missing_frame(seq, head, cut, location)
                yield stored
                seq = stored.last + 1

    # Writing

    def put(self, txn: Txn, frames: Sequence[tuple[bytes, bytes]]) -> None:
        """Append frames by their keys (ST-2).

        Raises:
            Damage: A frame at or after one of them is stored already.
        """
        table = self._environment.tables["frames"]
        for key, data in frames:
            if not txn.put(key, data, append=True, db=table):
                raise self._stored_already(key)

    def put_head(self, txn: Txn, head: Head) -> None:
        """Store the signed head, in the transaction of the frame that it names."""
        txn.put(_HEAD, head.to_bytes(), db=self._environment.tables["system"])

    def put_cut(self, txn: Txn, cut: bytes) -> None:
        """Store the bytes of a cut. From this commit on its records count as pruned, although
        their frames are still there."""
        txn.put(_CUT, cut, db=self._environment.tables["system"])

    def drop(self, txn: Txn, cut: Cut, frames_max: int) -> int:
        """Remove up to ``frames_max`` pruned frames and the notes on their records; return how many
        frames were removed."""
        tables = self._environment.tables
        removed_count = drop_rows(txn, tables["frames"], seq_key(2), seq_key(cut.seq), frames_max)
        last = cut.seq
        if removed_count == frames_max:
            # Only the notes on the frames that were removed, so that a transaction stays bounded.
            with txn.cursor(db=tables["frames"]) as cursor:
                cursor.set_range(seq_key(2))
                last = int.from_bytes(cursor.key(), "big") - 1
        drop_rows(txn, tables["notes"], seq_key(2), seq_key(last), None)
        return removed_count

    # Rows

    def _cut(self, txn: Txn) -> Cut | None:
        data = txn.get(_CUT, db=self._environment.tables["system"])
        return None if data is None else self._rows.decode_row("the cut", Cut.from_bytes, data)

    def _slice(self, seq: int, last: int) -> tuple[list[tuple[bytes, bytes]], Cut | None]:
        """Stored frames from the one that may hold ``seq``, as many as one transaction reads; and
        where the journal begins."""
        first_key, last_key = seq_key(seq), seq_key(last)

        def take(txn: Txn) -> tuple[list[tuple[bytes, bytes]], Cut | None]:
            rows: list[tuple[bytes, bytes]] = []
            size = 0
            with txn.cursor(db=self._environment.tables["frames"]) as cursor:
                is_there = cursor.set_range(first_key) or cursor.last()
                if is_there and cursor.key() != first_key:
                    is_there = cursor.key() < first_key or cursor.prev()
                while is_there and cursor.key() <= last_key:
                    rows.append(cursor.item())
                    size += len(rows[-1][1])
                    if len(rows) == SLICE_FRAMES or size >= SLICE_BYTES:
                        break
                    is_there = cursor.next()
            return rows, self._cut(txn)

        return self._rows.read(take)

    def _frame(self, seq: int, data: bytes) -> Frame:
        location = self._environment.location
        try:
            frame = read_frame(data)
        except Damage as error:
            raise Damage(
                f"frame {seq}: {error}", location=location, hint="restore a backup"
            ) from error
        if frame.header.first != seq:
            raise Damage(
                f"frame {seq} is in another's place",
                location=location,
                expected=f"first record {seq}",
                actual=f"first record {frame.header.first}",
                hint="restore a backup",
            )
        return frame

    def _stored_already(self, key: bytes) -> Damage:
        return Damage(
            f"a frame at or after record {int.from_bytes(key, 'big')} is stored already",
            location=self._environment.location,
            hint="the head and the frames contradict each other: aos verify",
        )


class LmdbDerivedRows:
    """The derived rows of one store (ST-30): intents, submissions, snapshots and puts. A method
    that writes gets the transaction of which the rows are a part."""

    def __init__(self, environment: Environment, rows: LmdbRows) -> None:
        self._environment = environment
        self._rows = rows
        self._recent: dict[Hash, IntentRow] = {}
        """Rows of open intents that were written here. A group that did not become durable is
        written again, with the same rows."""

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

    def recent_intent(self, txn: Txn, hash: Hash) -> IntentRow | None:
        """As ``intent_in``; one that this process opened lately is not read again."""
        return self._recent.get(hash) or self.intent_in(txn, hash)

    # Writing

    def put_intents(self, txn: Txn, changes: IntentChanges) -> None:
        """Store the rows of intents that a commit group makes, in the transaction of the group.

        Raises:
            Damage: One that it opens has a row already (ST-32).
        """
        opened, ended = changes
        recent = self._recent
        with txn.cursor(db=self._environment.tables["intents"]) as cursor:
            rows = [(intent, row.to_bytes()) for intent, row in opened.items()]
            if cursor.putmulti(rows, overwrite=False)[1] < len(rows):
                raise self._opened_already(txn, opened)
            if ended:
                cursor.putmulti([(intent, row.to_bytes()) for intent, row in ended.items()])
        for intent in ended:
            recent.pop(intent, None)
        if len(recent) > RECENT_MAX:
            recent.clear()
        recent.update(opened)

    def _opened_already(self, txn: Txn, opened: Mapping[Hash, IntentRow]) -> Damage:
        """The error for the first of these rows that is stored otherwise."""
        for intent, row in opened.items():
            if self.intent_in(txn, intent) != row:
                return opened_already(intent, row.opened_seq, self._environment.location)
        intent, row = next(iter(opened.items()))
        return opened_already(intent, row.opened_seq, self._environment.location)

    def forget_recent(self) -> None:
        """Read every row again: other rows may take the place of those that were written here."""
        self._recent.clear()

    def put(
        self,
        txn: Txn,
        *,
        submissions: Iterable[SubmissionRow],
        snapshots: Iterable[SnapshotRow],
    ) -> None:
        """Store the rows that a commit group makes, in the transaction of the group (ST-31); those
        of its intents apart."""
        tables = self._environment.tables
        for submission in submissions:
            txn.put(submission.key, submission.to_bytes(), db=tables["submissions"])
        for snapshot in snapshots:
            txn.put(seq_key(snapshot.at), snapshot.to_bytes(), db=tables["snapshots"])

    def drop_snapshots(self, txn: Txn, ats: Iterable[int]) -> None:
        """Remove the rows of the snapshots after these records."""
        for at in ats:
            txn.delete(seq_key(at), db=self._environment.tables["snapshots"])

    def add_puts(self, txn: Txn, rows: Iterable[PutRow]) -> None:
        """Store rows of blobs that instances put in pruned records (RT-24)."""
        for row in rows:
            txn.put(row.key, row.to_bytes(), db=self._environment.tables["puts"])

    def forget(self, txn: Txn, removal: Forget) -> None:
        """Remove the rows that ``removal`` names, its blobs apart."""
        self.forget_recent()
        tables = self._environment.tables
        self.drop_snapshots(txn, removal.snapshots)
        submissions = [submission_key(submission_id) for submission_id in removal.submissions]
        for table, keys in (
            ("intents", removal.intents),
            ("submissions", [key for key in submissions if key is not None]),
            ("erased", removal.erased),
            ("puts", removal.puts),
        ):
            for key in keys:
                txn.delete(key, db=tables[table])

    # Rows

    def _intent(self, hash: Hash, data: bytes) -> IntentRow:
        try:
            return IntentRow.from_bytes(data)
        except Damage:
            subject = f"intent {hash_text(hash)}"
            return self._rows.decode_row(subject, IntentRow.from_bytes, data, hint=_REBUILD_HINT)

    def _submission(self, key: bytes, data: bytes) -> SubmissionRow:
        read = partial(SubmissionRow.from_bytes, key)
        return self._rows.decode_row(f"submission {key!r}", read, data, hint=_REBUILD_HINT)

    def _snapshot(self, key: bytes, data: bytes) -> SnapshotRow:
        read = partial(SnapshotRow.from_bytes, key)
        return self._rows.decode_row(f"snapshot {key.hex()}", read, data, hint=_REBUILD_HINT)
