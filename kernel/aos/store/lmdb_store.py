"""A store in one LMDB environment: ``data.mdb`` and ``lock.mdb`` in a folder (spec/store.md).

Its tables:

    name         key                                  value
    system       "format", "head", "cut", "home"      1 or 2, the signed head, Cut, inode (ST-70)
    frames       its first sequence (u64, big end)    the frame
    blobs        content hash                         the bytes
    intents      intent hash                          IntentRow
    submissions  submission id                        SubmissionRow
    packed       content hash                         PackedRow: a large blob, in a file of its own
    deltas       content hash                         DeltaRow: what differs from another one
    bases        hash of that other one, own hash     nothing
    erased       content hash                         ErasedRow
    snapshots    the record it is of (u64, big end)   SnapshotRow
    puts         content hash, record (u64)           PutRow
    names        SHA-256 name of a blob               its content hash
                 hash of one not there, its name      nothing: its document waits for it
    notes        a record's sequence (u64, big end)   words about it, UTF-8
    meta         name                                 what the host put there
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from aos.closable import Closable
from aos.core.journal.frame import Frame, Head, StoredFrame
from aos.errors import Unavailable
from aos.store.cut import Cut
from aos.store.delta import DeltaRow
from aos.store.environment import Access, Environment
from aos.store.lmdb_blobs import LmdbBlobs
from aos.store.lmdb_journal import LmdbDerivedRows, LmdbFrames
from aos.store.lmdb_rows import LmdbRows
from aos.store.room import make_reserve, release_reserve
from aos.store.rows import (
    KEY_BYTES_MAX,
    ErasedRow,
    IntentRow,
    PutRow,
    SnapshotRow,
    SubmissionRow,
    seq_key,
)
from aos.store.shared import acquire, compact, release
from aos.store.store import (
    NO_NOTES,
    check_blobs,
    check_expected,
    check_group,
    erasing,
    intent_changes,
    snapshot_changes,
    submission_changes,
)
from aos.values.digests import Hash
from aos.values.sha256 import Name

if TYPE_CHECKING:
    import lmdb

    from aos.core.pending import Sealed
    from aos.store.row_copy import StoredRow
    from aos.store.rows import Forget

NO_META: Final[Mapping[str, bytes]] = MappingProxyType({})

LOG_PLACE: Final = "log"
"""The value of the host that the store of a replicated world has: its place in the log."""

_ROW_ROOM: Final = 2 * 4096
"""Bytes that LMDB may write for one new row: it copies the pages on the way to it."""

_FORGET_ROOM: Final = 32 * 4096
"""Bytes that the removal of a single row may write: the pages on the way to it in each table, and
the list of free pages. With a lower figure, a write that was cut short could look like a fault of
the disk (ST-4)."""


class LmdbStore(Closable):
    """The ``Store`` in LMDB: checks that it may be used, opens transactions, and calls its parts.

    ``LmdbFrames`` has the journal, ``LmdbBlobs`` the blobs and their names, ``LmdbDerivedRows`` the
    other rows. Made by ``create`` or ``open``; a writer must hold the ``WorldLock`` of its world.

    A method that writes rows is one transaction, durable when the method returns: LMDB syncs the
    data, then the meta page that makes it valid (ST-3).
    """

    def __init__(self, environment: Environment, *, readonly: bool) -> None:
        self._environment = environment
        self._readonly = readonly
        self._is_closed = False
        self.folder = environment.folder
        self.location = environment.location
        self._rows = LmdbRows(environment, self._check_open)
        self._frames = LmdbFrames(environment, self._rows)
        self._blobs = LmdbBlobs(environment, self._rows)
        self._derived = LmdbDerivedRows(environment, self._rows)

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

    # The journal

    def head(self) -> Head | None:
        return self._frames.head()

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
        also: Mapping[str, bytes] = NO_META,
        dropped: Sequence[int] = (),
    ) -> None:
        """Make a commit group durable in one transaction, or nothing of it (ST-1 to ST-4). ``also``
        are values of the host, as for ``meta_put``, that become durable with it; the rows of the
        snapshots after the records ``dropped`` are removed with it."""
        self._check_writable()
        check_group(group, head, expected)
        frames = [
            (seq_key(sealed_frame.frame.header.first), sealed_frame.frame.to_bytes())
            for sealed_frame in group
        ]
        blobs = {key: data for sealed_frame in group for key, data in sealed_frame.blobs.items()}
        check_blobs(blobs)
        packs = self._blobs.unpacked(blobs)
        erased = [erasing(sealed_frame) for sealed_frame in group]
        submissions = submission_changes(group)
        changed_count = sum(
            len(sealed_frame.opened_intents) + len(sealed_frame.settled) + len(sealed_frame.erased)
            for sealed_frame in group
        )
        texts = [(seq_key(seq), text.encode(errors="replace")) for seq, text in notes.items()]
        rows = len(frames) + len(blobs) + len(submissions) + len(texts) + changed_count + len(also)
        rows += len(dropped)
        needed_bytes = sum(len(data) for _, data in (*frames, *texts)) + sum(
            map(len, blobs.values())
        )
        needed_bytes -= sum(map(len, packs.values()))
        erased_hashes = [value for values in erased for value in values]
        needed_bytes += self._blobs.made_whole_bytes(erased_hashes) if erased_hashes else 0
        with (
            self._blobs.packing(packs) as changes,
            self._environment.write(needed_bytes + rows * _ROW_ROOM) as txn,
        ):
            check_expected(self._frames.head_in(txn), group, head, expected, self.location)
            self._frames.put(txn, frames)
            for sealed, values in zip(group, erased, strict=True):
                for value, seq in values.items():
                    self._blobs.erase(txn, value, seq, changes)
                self._blobs.keep(txn, sealed.blobs, changes, sealed.replaced)
            intents = intent_changes(
                group, partial(self._derived.recent_intent, txn), self.location
            )
            self._derived.put_intents(txn, intents)
            self._derived.put(
                txn, submissions=submissions.values(), snapshots=snapshot_changes(group)
            )
            self._derived.drop_snapshots(txn, dropped)
            for key, text in texts:
                txn.put(key, text, db=self._environment.tables["notes"])
            self._put_meta(txn, also)
            self._frames.put_head(txn, head)

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        return self._frames.frames(first_seq, last_seq)

    def stored_frames(self, first_seq: int, last_seq: int) -> Iterator[StoredFrame]:
        return self._frames.stored_frames(first_seq, last_seq)

    def frame_at(self, seq: int) -> Frame | None:
        return next(self.frames(seq, seq), None) if seq > 0 else None

    # Pruning

    def cut(self) -> Cut | None:
        return self._frames.cut()

    def set_cut(self, cut: Cut) -> None:
        self._check_writable()
        data = cut.to_bytes()
        with self._environment.write(len(data) + _ROW_ROOM) as txn:
            self._frames.put_cut(txn, data)

    def drop_frames(self, frames_max: int) -> int:
        self._check_writable()
        cut = self.cut()
        if cut is None:
            return 0
        with self._environment.write(frames_max * _ROW_ROOM) as txn:
            return self._frames.drop(txn, cut, frames_max)

    def forget(self, removal: Forget) -> int:
        self._check_writable()
        with (
            self._blobs.packing({}) as changes,
            self._environment.write(_FORGET_ROOM + len(removal) * _ROW_ROOM) as txn,
        ):
            staying = self._blobs.forget(txn, removal.blobs, changes)
            self._derived.forget(txn, removal)
        return len(removal.blobs) - staying

    def puts(self) -> Iterator[PutRow]:
        return self._derived.puts()

    def add_puts(self, rows: Sequence[PutRow]) -> None:
        self._check_writable()
        with self._environment.write(len(rows) * _ROW_ROOM) as txn:
            self._derived.add_puts(txn, rows)

    # Blobs

    def blob(self, hash: Hash) -> bytes:
        return self._blobs.read(hash)

    def has_blob(self, hash: Hash) -> bool:
        return self._blobs.has(hash)

    def first_bytes(self, hash: Hash, bytes_max: int) -> bytes | None:
        return self._blobs.first_bytes(hash, bytes_max)

    def blob_size(self, hash: Hash) -> int | None:
        return self._blobs.size(hash)

    def blob_hashes(self) -> Iterator[Hash]:
        return self._blobs.hashes()

    def blob_sizes(self) -> Iterator[tuple[Hash, int]]:
        return self._blobs.sizes()

    def put_blobs(
        self, blobs: Mapping[Hash, bytes], *, also: Mapping[str, bytes] = NO_META
    ) -> None:
        """Make blobs durable outside a group, with values of the host as in ``append``."""
        self._check_writable()
        check_blobs(blobs)
        packs = self._blobs.unpacked(blobs)
        small = sum(map(len, blobs.values())) - sum(map(len, packs.values()))
        with (
            self._blobs.packing(packs) as changes,
            self._environment.write(small + (len(blobs) + len(also)) * _ROW_ROOM) as txn,
        ):
            self._blobs.keep(txn, blobs, changes)
            self._put_meta(txn, also)

    def delta(self, hash: Hash) -> DeltaRow | None:
        return self._blobs.delta(hash)

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        return self._blobs.hash_by_sha256(sha256)

    def names(self) -> Iterator[Name]:
        return self._blobs.names()

    def erased(self, hash: Hash) -> ErasedRow | None:
        return self._blobs.erased(hash)

    def erasures(self) -> Iterator[tuple[Hash, ErasedRow]]:
        return self._blobs.erasures()

    # Derived rows

    def intent(self, hash: Hash) -> IntentRow | None:
        return self._derived.intent(hash)

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]:
        return self._derived.intents()

    def submission(self, submission_id: str) -> SubmissionRow | None:
        return self._derived.submission(submission_id)

    def submissions(self) -> Iterator[SubmissionRow]:
        return self._derived.submissions()

    def snapshots(self) -> Iterator[SnapshotRow]:
        return self._derived.snapshots()

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None:
        return self._derived.snapshot_before(seq)

    def row_keys(self, table: str) -> Iterator[bytes]:
        """The keys of a table of derived rows, also of rows that cannot be read."""
        for key, _ in self._rows.scan(table, values=False):
            yield key

    def replace_rows(self, tables: Mapping[str, Mapping[bytes, bytes]]) -> dict[str, int]:
        """Make these tables of derived rows equal to ``tables``, in one transaction (ST-34).

        Returns how many rows of each were written or removed. Raises as ``append``.
        """
        self._check_writable()
        self._derived.forget_recent()
        changes = {name: self._changes(name, rows) for name, rows in tables.items()}
        rows = sum(map(len, changes.values()))
        if rows:
            with self._environment.write(rows * _ROW_ROOM) as txn:
                for name, changed in changes.items():
                    for key, data in changed.items():
                        table = self._environment.tables[name]
                        if data is None:
                            txn.delete(key, db=table)
                        else:
                            txn.put(key, data, db=table)
        return {name: len(changed) for name, changed in changes.items()}

    def _changes(self, table: str, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        """The rows of a table that differ; None for one that should not be there."""
        changed: dict[bytes, bytes | None] = dict(rows)
        for key, data in self._rows.scan(table):
            expected = changed.pop(key, None)
            if expected != data:
                changed[key] = expected
        return changed

    # Notes, and values of the host

    def note(self, seq: int) -> str | None:
        data = self._rows.get("notes", seq_key(seq)) if self._rows.has("notes") else None
        return None if data is None else data.decode(errors="replace")

    def meta_get(self, name: str) -> bytes | None:
        return self._rows.get("meta", _name(name))

    def meta_put(self, name: str, value: bytes) -> None:
        self._check_writable()
        with self._environment.write(len(value) + _ROW_ROOM) as txn:
            self._put_meta(txn, {name: value})

    def meta_remove(self, name: str) -> None:
        """Remove the value that ``meta_put`` stored under this name, if there is one. Raises as
        ``append``."""
        self._check_writable()
        with self._environment.write(_ROW_ROOM) as txn:
            txn.delete(_name(name), db=self._environment.tables["meta"])

    def _put_meta(self, txn: lmdb.Transaction, values: Mapping[str, bytes]) -> None:
        for name, value in values.items():
            txn.put(_name(name), value, db=self._environment.tables["meta"])

    # All rows

    def all_rows(self) -> Iterator[StoredRow]:
        """As ``row_copy.all_rows``."""
        # Only replicated worlds copy their stores so.
        from aos.store.row_copy import all_rows  # noqa: PLC0415

        self._check_open()
        return all_rows(self._environment)

    def put_rows(self, rows: Iterable[StoredRow]) -> int:
        """As ``row_copy.put_rows``. The store has no journal yet."""
        from aos.store.row_copy import put_rows  # noqa: PLC0415

        self._check_writable()
        assert self.head() is None, "a store with a journal"
        return put_rows(self._environment, rows)

    # The store itself

    def sync_reader_check(self) -> int:
        self._check_open()
        return self._environment.reader_check()

    def size_bytes(self) -> int:
        self._check_open()
        packs = self._environment.packs.size_bytes()
        return (self.folder / "data.mdb").lstat().st_size + packs

    def is_home(self) -> bool | None:
        """Whether the data file is where ``settle`` was last called; a copy of it is not. None
        if it never was (ST-70)."""
        self._check_open()
        return self._environment.is_home()

    def settle(self) -> None:
        """Declare the data file that is in the folder now the world's own (ST-70). Raises as
        ``append``."""
        self._check_writable()
        self._environment.settle()

    def compact(self) -> None:
        self._check_writable()
        compact(self._environment)

    def make_reserve(self) -> bool:
        self._check_writable()
        return make_reserve(self.folder)

    def release_reserve(self) -> bool:
        self._check_writable()
        return release_reserve(self.folder)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            release(self._environment)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(f"{self.location}: the store is closed")

    def _check_writable(self) -> None:
        self._check_open()
        assert not self._readonly, "written to, and opened for reading"


def _name(name: str) -> bytes:
    key = name.encode()
    assert 0 < len(key) <= KEY_BYTES_MAX, f"a name of {len(key)} bytes"
    return key
