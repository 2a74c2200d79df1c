"""A store in one LMDB environment: ``data.mdb`` and ``lock.mdb`` in a folder (spec/store.md).

Its tables:

    name         key                                  value
    system       "format", "head", "cut", "home"      "1", the signed head, Cut, inode (ST-70)
    frames       its first sequence (u64, big end)    the frame
    blobs        content hash                         the bytes
    intents      intent hash                          IntentRow
    submissions  submission id                        SubmissionRow
    packed       content hash                         PackedRow: a large blob, in a file of its own
    erased       content hash                         ErasedRow
    snapshots    the record it is of (u64, big end)   SnapshotRow
    puts         content hash, record (u64)           PutRow
    names        SHA-256 name of a blob               its content hash
                 hash of one not there, its name      nothing: its document waits for it
    notes        a record's sequence (u64, big end)   words about it, UTF-8
    meta         name                                 what the host put there
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aos.core.journal.frame import Frame, Head, read_frame
from aos.core.pending import Sealed
from aos.errors import Damage, Unavailable, sentence
from aos.store.cut import Cut
from aos.store.environment import Access, Environment, Table, Txn
from aos.store.forget import Forget
from aos.store.lmdb_blobs import LmdbBlobs
from aos.store.lmdb_rows import LmdbRows
from aos.store.rows import (
    KEY_BYTES_MAX,
    ErasedRow,
    IntentRow,
    PutRow,
    SnapshotRow,
    SubmissionRow,
    submission_key,
)
from aos.store.shared import acquire, compact, release
from aos.store.store import (
    NO_NOTES,
    check_blobs,
    check_expected,
    check_group,
    erasing,
    intent_changes,
    is_pruned,
    missing_frame,
    snapshot_changes,
    submission_changes,
)
from aos.values.digests import Hash, hash_text
from aos.values.sha256 import Name

SEQ_MAX: Final = 2**64 - 1
SLICE_FRAMES: Final = 64
SLICE_BYTES: Final = 4 * 1024 * 1024
"""What one read transaction takes at most, but for one last frame: some milliseconds of copying."""

_HEAD: Final = b"head"
_CUT: Final = b"cut"
_ROW_ROOM: Final = 2 * 4096
"""How much a new row may make LMDB write: the pages on the way to it are written anew."""


class LmdbStore:
    """Made by ``create`` or ``open``. A writer must hold the ``WorldLock`` of its world."""

    def __init__(self, environment: Environment, *, readonly: bool) -> None:
        self._environment = environment
        self._readonly = readonly
        self._is_closed = False
        self.folder = environment.folder
        self.where = environment.where
        self._rows = LmdbRows(environment, self._check_open)
        self._blobs = LmdbBlobs(environment, self._rows)

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make an empty store in ``folder``, which may exist; its parent must.

        Raises:
            Refused: A store with a journal is here already.
            NoRoom, CommitFailed, Unavailable: It cannot be made.
        """
        return cls(acquire(folder, Access.CREATE), readonly=False)

    @classmethod
    def open(cls, folder: Path, *, readonly: bool = False, looks: bool = True) -> Self:
        """Open the store in ``folder``. For reading, no file is made.

        A file that is not as a writer left it is read by a child first (ST-18a), unless ``looks``
        is False: then a damaged one may end this process by a signal.

        Raises:
            Damage: There is no whole store.
            NoRoom: A writer found none for what it must write first.
            Unavailable: It cannot be opened by this process, or not now.
        """
        access = Access.READ if readonly else Access.WRITE
        return cls(acquire(folder, access, looks=looks), readonly=readonly)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The journal

    def head(self) -> Head | None:
        return self._rows.read(self._head)

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
    ) -> None:
        self._check_writable()
        check_group(group, head, expected)
        frames = [(_key(each.frame.header.first), each.frame.to_bytes()) for each in group]
        blobs = {key: data for each in group for key, data in each.blobs.items()}
        check_blobs(blobs)
        packs = self._blobs.unpacked(blobs)
        erased = [erasing(each) for each in group]
        submissions = submission_changes(group)
        opened = sum(len(each.opened) + len(each.settled) + len(each.erased) for each in group)
        texts = [(_key(seq), text.encode(errors="replace")) for seq, text in notes.items()]
        rows = len(frames) + len(blobs) + len(submissions) + len(texts) + opened
        needed = sum(len(data) for _, data in (*frames, *texts)) + sum(map(len, blobs.values()))
        needed -= sum(map(len, packs.values()))
        tables = self._environment.tables
        with (
            self._blobs.packing(packs) as changes,
            self._environment.write(needed + rows * _ROW_ROOM) as txn,
        ):
            check_expected(self._head(txn), group, head, expected, self.where)
            for key, data in frames:
                if not txn.put(key, data, append=True, db=tables["frames"]):
                    raise self._stored_already(key)
            for sealed, values in zip(group, erased, strict=True):
                for value, seq in values.items():
                    self._blobs.erase(txn, value, seq, changes)
                self._blobs.keep(txn, sealed.blobs, changes)
            intents = intent_changes(group, lambda each: self._intent(txn, each), self.where)
            for intent, row in intents.items():
                txn.put(intent, row.to_bytes(), db=tables["intents"])
            for submission in submissions.values():
                txn.put(submission.key, submission.to_bytes(), db=tables["submissions"])
            for taken in snapshot_changes(group):
                txn.put(_key(taken.at), taken.to_bytes(), db=tables["snapshots"])
            for key, text in texts:
                txn.put(key, text, db=tables["notes"])
            txn.put(_HEAD, head.to_bytes(), db=tables["system"])

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        head = self.head()
        if head is None:
            return
        seq = max(first_seq, 1)
        last = head.seq if last_seq is None else min(last_seq, head.seq)
        while seq <= last:
            found, cut = self._slice(seq, last)
            if not found:
                raise missing_frame(seq, head, cut, self.where)
            for key, data in found:
                frame = self._frame(key, data)
                if not frame.header.first <= seq <= frame.header.last or is_pruned(frame, cut):
                    raise missing_frame(seq, head, cut, self.where)
                yield frame
                seq = frame.header.last + 1

    def frame_at(self, seq: int) -> Frame | None:
        return next(self.frames(seq, seq), None) if seq > 0 else None

    def _slice(self, seq: int, last: int) -> tuple[list[tuple[bytes, bytes]], Cut | None]:
        """Stored frames from the one that may hold ``seq``, as many as one transaction takes; and
        where the journal begins."""

        def take(txn: Txn) -> tuple[list[tuple[bytes, bytes]], Cut | None]:
            found: list[tuple[bytes, bytes]] = []
            size = 0
            with txn.cursor(db=self._environment.tables["frames"]) as cursor:
                is_there = cursor.set_range(_key(seq)) or cursor.last()
                if is_there and cursor.key() != _key(seq):
                    is_there = cursor.key() < _key(seq) or cursor.prev()
                while is_there and cursor.key() <= _key(last):
                    found.append(cursor.item())
                    size += len(found[-1][1])
                    if len(found) == SLICE_FRAMES or size >= SLICE_BYTES:
                        break
                    is_there = cursor.next()
            return found, self._cut(txn)

        return self._rows.read(take)

    def _frame(self, key: bytes, data: bytes) -> Frame:
        seq = int.from_bytes(key, "big")
        try:
            frame = read_frame(data)
        except Damage as error:
            raise Damage(
                sentence(f"frame {seq}: {error}", where=self.where, hint="restore a backup")
            ) from error
        if frame.header.first != seq:
            raise Damage(
                sentence(
                    f"frame {seq} is in another's place",
                    where=self.where,
                    expected=f"first record {seq}",
                    found=f"first record {frame.header.first}",
                    hint="restore a backup",
                )
            )
        return frame

    def _head(self, txn: Txn) -> Head | None:
        data = txn.get(_HEAD, db=self._environment.tables["system"])
        return None if data is None else self._rows.named("the head", Head.from_bytes, data)

    # Pruned

    def cut(self) -> Cut | None:
        return self._rows.read(self._cut)

    def _cut(self, txn: Txn) -> Cut | None:
        data = txn.get(_CUT, db=self._environment.tables["system"])
        return None if data is None else self._rows.named("the cut", Cut.from_bytes, data)

    def set_cut(self, cut: Cut) -> None:
        self._check_writable()
        data = cut.to_bytes()
        with self._environment.write(len(data) + _ROW_ROOM) as txn:
            txn.put(_CUT, data, db=self._environment.tables["system"])

    def drop_frames(self, most: int) -> int:
        self._check_writable()
        cut = self.cut()
        if cut is None:
            return 0
        tables = self._environment.tables
        with self._environment.write(most * _ROW_ROOM) as txn:
            gone = _drop_rows(txn, tables["frames"], _key(2), _key(cut.seq), most)
            last = cut.seq
            if gone == most:
                # Notes as far as the frames went, so that a transaction stays bounded.
                with txn.cursor(db=tables["frames"]) as cursor:
                    cursor.set_range(_key(2))
                    last = int.from_bytes(cursor.key(), "big") - 1
            _drop_rows(txn, tables["notes"], _key(2), _key(last), None)
        return gone

    def forget(self, what: Forget) -> None:
        self._check_writable()
        tables = self._environment.tables
        submissions = [submission_key(each) for each in what.submissions]
        with (
            self._blobs.packing({}) as changes,
            self._environment.write(len(what) * _ROW_ROOM) as txn,
        ):
            for blob in what.blobs:
                self._blobs.drop(txn, blob, changes)
            for table, keys in (
                ("intents", what.intents),
                ("submissions", [key for key in submissions if key is not None]),
                ("erased", what.erased),
                ("snapshots", [_key(at) for at in what.snapshots]),
                ("puts", what.puts),
            ):
                for key in keys:
                    txn.delete(key, db=tables[table])

    def puts(self) -> Iterator[PutRow]:
        for key, data in self._rows.scan("puts"):
            yield self._rows.named(f"put {key.hex()}", partial(PutRow.from_bytes, key), data)

    def add_puts(self, rows: Sequence[PutRow]) -> None:
        self._check_writable()
        with self._environment.write(len(rows) * _ROW_ROOM) as txn:
            for row in rows:
                txn.put(row.key, row.to_bytes(), db=self._environment.tables["puts"])

    # Blobs

    def blob(self, hash: Hash) -> bytes:
        return self._blobs.read(hash)

    def has_blob(self, hash: Hash) -> bool:
        return self._blobs.has(hash)

    def first_bytes(self, hash: Hash, most: int) -> bytes | None:
        return self._blobs.first_bytes(hash, most)

    def blob_hashes(self) -> Iterator[Hash]:
        return self._blobs.hashes()

    def blob_sizes(self) -> Iterator[tuple[Hash, int]]:
        return self._blobs.sizes()

    def put_blobs(self, blobs: Mapping[Hash, bytes]) -> None:
        self._check_writable()
        check_blobs(blobs)
        packs = self._blobs.unpacked(blobs)
        small = sum(map(len, blobs.values())) - sum(map(len, packs.values()))
        with (
            self._blobs.packing(packs) as changes,
            self._environment.write(small + len(blobs) * _ROW_ROOM) as txn,
        ):
            self._blobs.keep(txn, blobs, changes)

    def named(self, sha256: bytes) -> Hash | None:
        return self._blobs.named(sha256)

    def names(self) -> Iterator[Name]:
        return self._blobs.names()

    def erased(self, hash: Hash) -> ErasedRow | None:
        return self._blobs.erased(hash)

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        return self._blobs.erasures()

    # Derived rows

    def intent(self, hash: Hash) -> IntentRow | None:
        return self._rows.read(lambda txn: self._intent(txn, hash))

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        for key, data in self._rows.scan("intents"):
            yield Hash(key), self._intent_row(Hash(key), data)

    def submission(self, submission_id: str) -> SubmissionRow | None:
        key = submission_key(submission_id)
        if key is None:
            return None
        data = self._rows.get("submissions", key)
        return None if data is None else self._submission_row(key, data)

    def submissions(self) -> Iterator[SubmissionRow]:
        for key, data in self._rows.scan("submissions"):
            yield self._submission_row(key, data)

    def _intent(self, txn: Txn, hash: Hash) -> IntentRow | None:
        data = txn.get(hash, db=self._environment.tables["intents"])
        return None if data is None else self._intent_row(hash, data)

    def _intent_row(self, hash: Hash, data: bytes) -> IntentRow:
        return self._rows.named(f"intent {hash_text(hash)}", IntentRow.from_bytes, data)

    def _submission_row(self, key: bytes, data: bytes) -> SubmissionRow:
        return self._rows.named(f"submission {key!r}", partial(SubmissionRow.from_bytes, key), data)

    def snapshots(self) -> Iterator[SnapshotRow]:
        for key, data in self._rows.scan("snapshots"):
            yield self._snapshot_row(key, data)

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None:
        if not self._rows.has("snapshots"):
            return None
        least = _key(SEQ_MAX if seq is None else min(max(seq, 0), SEQ_MAX))

        def take(txn: Txn) -> tuple[bytes, bytes] | None:
            with txn.cursor(db=self._environment.tables["snapshots"]) as cursor:
                is_there = cursor.set_range(least)
                if not is_there or cursor.key() != least:
                    is_there = cursor.prev() if is_there else cursor.last()
                return cursor.item() if is_there else None

        found = self._rows.read(take)
        return None if found is None else self._snapshot_row(*found)

    def _snapshot_row(self, key: bytes, data: bytes) -> SnapshotRow:
        return self._rows.named(f"snapshot {key.hex()}", partial(SnapshotRow.from_bytes, key), data)

    # Beside the journal

    def note(self, seq: int) -> str | None:
        data = self._rows.get("notes", _key(seq)) if self._rows.has("notes") else None
        return None if data is None else data.decode(errors="replace")

    def meta_get(self, name: str) -> bytes | None:
        return self._rows.get("meta", _name(name))

    def meta_put(self, name: str, value: bytes) -> None:
        self._check_writable()
        with self._environment.write(len(value) + _ROW_ROOM) as txn:
            txn.put(_name(name), value, db=self._environment.tables["meta"])

    # The store itself

    def sync_reader_check(self) -> int:
        self._check_open()
        return self._environment.reader_check()

    def size_bytes(self) -> int:
        self._check_open()
        packs = self._environment.packs.size_bytes()
        return (self.folder / "data.mdb").lstat().st_size + packs

    def is_home(self) -> bool | None:
        """Whether the data file lies where it was settled: a copy of it does not. None where it
        never was (ST-70)."""
        self._check_open()
        return self._environment.is_home()

    def settle(self) -> None:
        """From now on the data file that lies here is the one. Raises as ``append``."""
        self._check_writable()
        self._environment.settle()

    def compact(self) -> None:
        self._check_writable()
        compact(self._environment)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            release(self._environment)

    def _stored_already(self, key: bytes) -> Damage:
        return Damage(
            sentence(
                f"a frame at or after record {int.from_bytes(key, 'big')} is stored already",
                where=self.where,
                hint="the head and the frames contradict each other: aos verify",
            )
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(f"{self.where}: the store is closed")

    def _check_writable(self) -> None:
        self._check_open()
        assert not self._readonly, "written to, and opened for reading"


def _drop_rows(txn: Txn, table: Table, first: bytes, last: bytes, most: int | None) -> int:
    """Take away the rows from ``first`` to ``last``, at most so many; return how many went."""
    count = 0
    with txn.cursor(db=table) as cursor:
        is_there = cursor.set_range(first)
        while is_there and cursor.key() <= last and count != most:
            is_there = cursor.delete() and bool(cursor.key())
            count += 1
    return count


def _key(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def _name(name: str) -> bytes:
    key = name.encode()
    assert 0 < len(key) <= KEY_BYTES_MAX, f"a name of {len(key)} bytes"
    return key
