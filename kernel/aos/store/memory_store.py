"""A store in memory: the same guarantees, durability apart (spec/store.md)."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aos.core.journal.frame import Frame, Head, StoredFrame
from aos.errors import Unavailable
from aos.store.cut import Cut
from aos.store.delta import DeltaRow
from aos.store.rows import ErasedRow, IntentRow, PutRow, SnapshotRow, SubmissionRow
from aos.store.store import (
    NO_NOTES,
    check_blobs,
    check_expected,
    check_group,
    checked_blob,
    erasing,
    intent_changes,
    is_pruned,
    missing_frame,
    names_in,
    opened_already,
    snapshot_changes,
    submission_changes,
)
from aos.values.digests import Hash
from aos.values.sha256 import Name, read_name, true_sha256

if TYPE_CHECKING:
    from aos.core.pending import Sealed
    from aos.store.rows import Forget

LOCATION = "memory"


class MemoryStore:
    """A ``Store`` that keeps everything until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head: Head | None = None
        self._frames: dict[int, Frame] = {}
        self._firsts: list[int] = []
        self._blobs: dict[Hash, bytes] = {}
        self._intents: dict[Hash, IntentRow] = {}
        self._submissions: dict[str, SubmissionRow] = {}
        self._erased: dict[Hash, ErasedRow] = {}
        self._snapshots: dict[int, SnapshotRow] = {}
        self._puts: dict[bytes, PutRow] = {}
        self._names: dict[bytes, Hash] = {}
        self._waiting: dict[Hash, dict[Name, None]] = {}  # blob that is not there -> its names
        self._notes: dict[int, str] = {}
        self._cut: Cut | None = None
        self._meta: dict[str, bytes] = {}
        self._is_closed = False

    def head(self) -> Head | None:
        self._check_open()
        return self._head

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
    ) -> None:
        self._check_open()
        check_group(group, head, expected)
        for sealed in group:
            check_blobs(sealed.blobs)
        with self._lock:
            check_expected(self._head, group, head, expected, LOCATION)
            intents = intent_changes(group, self._intents.get, LOCATION)
            for intent, row in intents.opened.items():
                if intent in self._intents:
                    raise opened_already(intent, row.opened_seq, LOCATION)
            for sealed in group:
                self._frames[sealed.frame.header.first] = sealed.frame
                self._firsts.append(sealed.frame.header.first)
                for value, seq in erasing(sealed).items():
                    self._erase(value, seq)
                self._keep(sealed.blobs)
            self._intents.update(intents.opened)
            self._intents.update(intents.ended)
            self._submissions.update(submission_changes(group))
            self._snapshots.update((row.at, row) for row in snapshot_changes(group))
            self._notes.update(notes)
            self._head = head

    def _erase(self, value: Hash, seq: int) -> None:
        self._unname(value)
        erased_row, data = self._erased.get(value), self._blobs.pop(value, None)
        size = len(data) if data is not None else erased_row.size if erased_row else 0
        self._erased[value] = ErasedRow(seq=seq, size=size)

    def _keep(self, blobs: Mapping[Hash, bytes]) -> None:
        self._blobs.update(blobs)
        for key in blobs:
            self._erased.pop(key, None)
            for waiting in self._waiting.pop(key, ()):
                if waiting.is_of(blobs[key]):
                    self._names.setdefault(waiting.sha256, key)
        for name, is_right in names_in(blobs, self._true_of):
            if is_right:
                self._names.setdefault(name.sha256, name.blob)
            else:
                self._waiting.setdefault(name.blob, {})[name] = None

    def _true_of(self, hash: Hash) -> bytes | None:
        data = self._blobs.get(hash)
        return None if data is None else true_sha256(data)

    def _unname(self, hash: Hash) -> None:
        """A blob goes: what it says of another's name goes with it."""
        name = read_name(self._blobs.get(hash, b""))
        if name is None:
            return
        self._waiting.get(name.blob, {}).pop(name, None)
        if self._names.get(name.sha256) == name.blob:
            del self._names[name.sha256]

    def note(self, seq: int) -> str | None:
        return self._notes.get(seq)

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        head = self.head()
        if head is None:
            return
        seq = max(first_seq, 1)
        last = head.seq if last_seq is None else min(last_seq, head.seq)
        while seq <= last:
            frame = self.frame_at(seq)
            if frame is None or not frame.header.first <= seq <= frame.header.last:
                # A frame in another's place would be returned again and again.
                raise missing_frame(seq, head, self._cut, LOCATION)
            yield frame
            seq = frame.header.last + 1

    def stored_frames(self, first_seq: int, last_seq: int) -> Iterator[StoredFrame]:
        for frame in self.frames(first_seq, last_seq):
            yield StoredFrame(frame.header.first, frame.header.last, frame.to_bytes())

    def frame_at(self, seq: int) -> Frame | None:
        self._check_open()
        with self._lock:
            position = bisect_right(self._firsts, seq)
            frame = self._frames.get(self._firsts[position - 1]) if position else None
            head = self._head
        if head is None or not 1 <= seq <= head.seq:
            return None
        if frame is None or frame.header.last < seq or is_pruned(frame.header.first, self._cut):
            raise missing_frame(seq, head, self._cut, LOCATION)
        return frame

    def cut(self) -> Cut | None:
        self._check_open()
        return self._cut

    def set_cut(self, cut: Cut) -> None:
        self._check_open()
        self._cut = cut

    def drop_frames(self, frames_max: int) -> int:
        self._check_open()
        with self._lock:
            last = 0 if self._cut is None else self._cut.seq
            dropped_firsts = [first_seq for first_seq in self._firsts if 1 < first_seq <= last][
                :frames_max
            ]
            for first in dropped_firsts:
                frame = self._frames.pop(first)
                for seq in range(first, frame.header.last + 1):
                    self._notes.pop(seq, None)
            self._firsts = [
                first_seq for first_seq in self._firsts if first_seq not in set(dropped_firsts)
            ]
        return len(dropped_firsts)

    def forget(self, removal: Forget) -> int:
        self._check_open()
        rows: tuple[tuple[dict[Any, Any], Sequence[object]], ...] = (
            (self._blobs, removal.blobs),
            (self._intents, removal.intents),
            (self._submissions, removal.submissions),
            (self._erased, removal.erased),
            (self._snapshots, removal.snapshots),
            (self._puts, removal.puts),
        )
        with self._lock:
            for blob in removal.blobs:
                self._unname(blob)
            for table, keys in rows:
                for key in keys:
                    table.pop(key, None)
        return len(removal.blobs)

    def puts(self) -> Iterator[PutRow]:
        self._check_open()
        with self._lock:
            rows = sorted(self._puts.items())
        yield from (row for _, row in rows)

    def add_puts(self, rows: Sequence[PutRow]) -> None:
        self._check_open()
        with self._lock:
            self._puts.update((row.key, row) for row in rows)

    def first_bytes(self, hash: Hash, bytes_max: int) -> bytes | None:
        self._check_open()
        data = self._blobs.get(hash)
        return None if data is None else data[:bytes_max]

    def blob(self, hash: Hash) -> bytes:
        self._check_open()
        with self._lock:
            data, erased = self._blobs.get(hash), self._erased.get(hash)
        return checked_blob(data, hash, erased, LOCATION)

    def has_blob(self, hash: Hash) -> bool:
        self._check_open()
        return hash in self._blobs

    def blob_size(self, hash: Hash) -> int | None:
        self._check_open()
        data = self._blobs.get(hash)
        return None if data is None else len(data)

    def blob_hashes(self) -> Iterator[Hash]:
        self._check_open()
        with self._lock:
            hashes = sorted(self._blobs)
        yield from hashes

    def blob_sizes(self) -> Iterator[tuple[Hash, int]]:
        self._check_open()
        with self._lock:
            sizes = sorted((hash, len(data)) for hash, data in self._blobs.items())
        yield from sizes

    def put_blobs(self, blobs: Mapping[Hash, bytes]) -> None:
        self._check_open()
        check_blobs(blobs)
        with self._lock:
            self._keep(blobs)

    def delta(self, hash: Hash) -> DeltaRow | None:  # noqa: ARG002  # all blobs are whole here
        self._check_open()
        return None

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        self._check_open()
        return self._names.get(sha256)

    def names(self) -> Iterator[Name]:
        self._check_open()
        with self._lock:
            rows = sorted(self._names.items())
        yield from (Name(sha256, blob) for sha256, blob in rows)

    def intent(self, hash: Hash) -> IntentRow | None:
        self._check_open()
        return self._intents.get(hash)

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        self._check_open()
        with self._lock:
            rows = sorted(self._intents.items(), key=lambda item: item[0])
        yield from rows

    def erased(self, hash: Hash) -> ErasedRow | None:
        self._check_open()
        return self._erased.get(hash)

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        self._check_open()
        with self._lock:
            rows = sorted(self._erased.items(), key=lambda item: item[0])
        yield from rows

    def submission(self, submission_id: str) -> SubmissionRow | None:
        self._check_open()
        return self._submissions.get(submission_id)

    def submissions(self) -> Iterator[SubmissionRow]:
        self._check_open()
        with self._lock:
            rows = sorted(self._submissions.values(), key=lambda row: row.key)
        yield from rows

    def snapshots(self) -> Iterator[SnapshotRow]:
        self._check_open()
        with self._lock:
            rows = sorted(self._snapshots.values(), key=lambda row: row.at)
        yield from rows

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None:
        rows = [row for row in self.snapshots() if seq is None or row.at <= seq]
        return rows[-1] if rows else None

    def meta_get(self, name: str) -> bytes | None:
        self._check_open()
        return self._meta.get(name)

    def meta_put(self, name: str, value: bytes) -> None:
        self._check_open()
        self._meta[name] = value

    def sync_reader_check(self) -> int:
        self._check_open()
        return 0

    def size_bytes(self) -> int:
        self._check_open()
        with self._lock:
            frames = sum(len(frame.to_bytes()) for frame in self._frames.values())
            return frames + sum(map(len, self._blobs.values()))

    def compact(self) -> None:
        self._check_open()

    def make_reserve(self) -> bool:
        return False

    def release_reserve(self) -> bool:
        return False

    def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(f"{LOCATION}: the store is closed")
