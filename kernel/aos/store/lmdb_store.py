"""A store in one LMDB environment: ``data.mdb`` and ``lock.mdb`` in a folder (spec/store.md).

Its tables:

    name         key                                  value
    system       "format", "head"                     "1", the signed head
    frames       its first sequence (u64, big end)    the frame
    blobs        content hash                         the bytes
    intents      intent hash                          IntentRow
    submissions  submission id                        SubmissionRow
    erased       content hash                         ErasedRow
    notes        a record's sequence (u64, big end)   words about it, UTF-8
    meta         name                                 what the host put there
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from aos.core.frame import Frame, Head, read_frame
from aos.errors import Damage, Unavailable, sentence
from aos.store.environment import Access, Environment, Txn
from aos.store.rows import KEY_BYTES_MAX, ErasedRow, IntentRow, SubmissionRow, submission_key
from aos.store.shared import acquire, compact, release
from aos.store.store import (
    NO_NOTES,
    Sealed,
    check_blobs,
    check_expected,
    check_group,
    checked_blob,
    erasing,
    intent_changes,
    missing_frame,
    submission_changes,
)
from aos.values.digests import Hash, hash_text

SLICE_FRAMES: Final = 64
SLICE_BYTES: Final = 4 * 1024 * 1024
SLICE_ROWS: Final = 1024
"""What one read transaction takes at most, but for one last frame: some milliseconds of copying."""

_HEAD: Final = b"head"
_ROW_ROOM: Final = 2 * 4096
"""How much a new row may make LMDB write: the pages on the way to it are written anew."""

T = TypeVar("T")


class LmdbStore:
    """Made by ``create`` or ``open``. A writer must hold the ``WorldLock`` of its world."""

    def __init__(self, environment: Environment, *, readonly: bool) -> None:
        self._environment = environment
        self._readonly = readonly
        self._is_closed = False
        self.folder = environment.folder
        self.where = environment.where

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
        return self._read(self._head)

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
        erased = [erasing(each) for each in group]
        submissions = submission_changes(group)
        opened = sum(len(each.opened) + len(each.settled) + len(each.erased) for each in group)
        texts = [(_key(seq), text.encode(errors="replace")) for seq, text in notes.items()]
        rows = len(frames) + len(blobs) + len(submissions) + len(texts) + opened
        needed = sum(len(data) for _, data in (*frames, *texts)) + sum(map(len, blobs.values()))
        tables = self._environment.tables
        with self._environment.write(needed + rows * _ROW_ROOM) as txn:
            check_expected(self._head(txn), head, expected, self.where)
            for key, data in frames:
                if not txn.put(key, data, append=True, db=tables["frames"]):
                    raise self._stored_already(key)
            for sealed, values in zip(group, erased, strict=True):
                for value, seq in values.items():
                    self._erase(txn, value, seq)
                self._keep(txn, sealed.blobs)
            intents = intent_changes(group, lambda each: self._intent(txn, each), self.where)
            for intent, row in intents.items():
                txn.put(intent, row.to_bytes(), db=tables["intents"])
            for submission in submissions.values():
                txn.put(submission.key, submission.to_bytes(), db=tables["submissions"])
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
            found = self._slice(seq, last)
            if not found:
                raise missing_frame(seq, head, self.where)
            for key, data in found:
                frame = self._frame(key, data)
                if not frame.header.first <= seq <= frame.header.last:
                    raise missing_frame(seq, head, self.where)
                yield frame
                seq = frame.header.last + 1

    def frame_at(self, seq: int) -> Frame | None:
        return next(self.frames(seq, seq), None) if seq > 0 else None

    def _slice(self, seq: int, last: int) -> list[tuple[bytes, bytes]]:
        """Stored frames from the one that may hold ``seq``, as many as one transaction takes."""

        def take(txn: Txn) -> list[tuple[bytes, bytes]]:
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
            return found

        return self._read(take)

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
        return None if data is None else self._named("the head", Head.from_bytes, data)

    # Blobs

    def blob(self, hash: Hash) -> bytes:
        def take(txn: Txn) -> tuple[bytes | None, ErasedRow | None]:
            data = txn.get(hash, db=self._environment.tables["blobs"])
            return data, None if data is not None else self._erased(txn, hash)

        data, erased = self._read(take)
        if data is None and erased is None and self._environment.has_table("erased"):
            data, erased = self._read(take)
        return checked_blob(data, hash, erased, self.where)

    def has_blob(self, hash: Hash) -> bool:
        def take(txn: Txn) -> bool:
            with txn.cursor(db=self._environment.tables["blobs"]) as cursor:
                return cursor.set_key(hash)

        return self._read(take)

    def blob_hashes(self) -> Iterator[Hash]:
        for key, _ in self._scan("blobs", values=False):
            yield Hash(key)

    def put_blobs(self, blobs: Mapping[Hash, bytes]) -> None:
        self._check_writable()
        check_blobs(blobs)
        needed = sum(map(len, blobs.values())) + len(blobs) * _ROW_ROOM
        with self._environment.write(needed) as txn:
            self._keep(txn, blobs)

    def erased(self, hash: Hash) -> ErasedRow | None:
        if not self._has("erased"):
            return None
        return self._read(lambda txn: self._erased(txn, hash))

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        for key, data in self._scan("erased"):
            yield Hash(key), self._erased_row(Hash(key), data)

    def _keep(self, txn: Txn, blobs: Mapping[Hash, bytes]) -> None:
        """Store what is not there yet. What was erased and comes again is there again."""
        tables = self._environment.tables
        for key, data in blobs.items():
            if txn.put(key, data, overwrite=False, db=tables["blobs"]):
                txn.delete(key, db=tables["erased"])

    def _erase(self, txn: Txn, value: Hash, seq: int) -> None:
        tables = self._environment.tables
        data, before = txn.get(value, db=tables["blobs"]), self._erased(txn, value)
        size = len(data) if data is not None else before.size if before else 0
        txn.delete(value, db=tables["blobs"])
        txn.put(value, ErasedRow(seq=seq, size=size).to_bytes(), db=tables["erased"])

    def _erased(self, txn: Txn, hash: Hash) -> ErasedRow | None:
        table = self._environment.tables.get("erased")
        data = None if table is None else txn.get(hash, db=table)
        return None if data is None else self._erased_row(hash, data)

    def _erased_row(self, hash: Hash, data: bytes) -> ErasedRow:
        return self._named(f"erased value {hash_text(hash)}", ErasedRow.from_bytes, data)

    # Derived rows

    def intent(self, hash: Hash) -> IntentRow | None:
        return self._read(lambda txn: self._intent(txn, hash))

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        for key, data in self._scan("intents"):
            yield Hash(key), self._intent_row(Hash(key), data)

    def submission(self, submission_id: str) -> SubmissionRow | None:
        key = submission_key(submission_id)
        if key is None:
            return None
        data = self._get("submissions", key)
        return None if data is None else self._submission_row(key, data)

    def submissions(self) -> Iterator[SubmissionRow]:
        for key, data in self._scan("submissions"):
            yield self._submission_row(key, data)

    def _intent(self, txn: Txn, hash: Hash) -> IntentRow | None:
        data = txn.get(hash, db=self._environment.tables["intents"])
        return None if data is None else self._intent_row(hash, data)

    def _intent_row(self, hash: Hash, data: bytes) -> IntentRow:
        return self._named(f"intent {hash_text(hash)}", IntentRow.from_bytes, data)

    def _submission_row(self, key: bytes, data: bytes) -> SubmissionRow:
        return self._named(f"submission {key!r}", partial(SubmissionRow.from_bytes, key), data)

    # Beside the journal

    def note(self, seq: int) -> str | None:
        data = self._get("notes", _key(seq)) if self._has("notes") else None
        return None if data is None else data.decode(errors="replace")

    def meta_get(self, name: str) -> bytes | None:
        return self._get("meta", _name(name))

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
        return (self.folder / "data.mdb").stat().st_size

    def compact(self) -> None:
        self._check_writable()
        compact(self._environment)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            release(self._environment)

    def _read(self, take: Callable[[Txn], T]) -> T:
        self._check_open()
        return self._environment.read(take)

    def _get(self, table: str, key: bytes) -> bytes | None:
        return self._read(lambda txn: txn.get(key, db=self._environment.tables[table]))

    def _has(self, table: str) -> bool:
        """Whether there is such a table; one that is not is empty (ST-10a)."""
        self._check_open()
        return self._environment.has_table(table)

    def _scan(self, table: str, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """All rows of a table, ascending, in one transaction for each ``SLICE_ROWS``."""
        if not self._has(table):
            return
        after = b"\0"
        while True:
            found = self._read(partial(self._rows, table=table, start=after, values=values))
            yield from found
            if len(found) < SLICE_ROWS:
                return
            after = found[-1][0] + b"\0"

    def _rows(
        self, txn: Txn, *, table: str, start: bytes, values: bool
    ) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        least = start
        with txn.cursor(db=self._environment.tables[table]) as cursor:
            is_there = cursor.set_range(start)
            while is_there and len(found) < SLICE_ROWS:
                key = cursor.key()
                if key < least:
                    # Where a page stands in two places, a scan would go round for ever.
                    raise self._out_of_order(table, key)
                found.append((key, cursor.value() if values else b""))
                least = key + b"\0"
                is_there = cursor.next()
        return found

    def _named(self, what: str, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except Damage as error:
            raise Damage(
                sentence(f"{what}: {error}", where=self.where, hint="restore a backup")
            ) from error

    def _out_of_order(self, table: str, key: bytes) -> Damage:
        return Damage(
            sentence(
                f"the rows of {table} are out of order at {key.hex()}",
                where=self.where,
                hint="the store's file is damaged: restore a backup",
            )
        )

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


def _key(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def _name(name: str) -> bytes:
    key = name.encode()
    assert 0 < len(key) <= KEY_BYTES_MAX, f"a name of {len(key)} bytes"
    return key
