"""One LMDB environment: opened, read, written, compacted (spec/store.md, ST-10 to ST-19).

LMDB reports the damage that it detects as an error code (``lmdb_errors``); other damage ends the
process by a signal, so ``first_look`` checks the file before LMDB opens it. No ``lmdb.Error``
leaves this file (ST-17).
"""

from __future__ import annotations

import contextlib
import enum
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import lmdb

from aos.errors import AosError, Damage, Refused, Unavailable
from aos.store.compact import copy_rows, home_row
from aos.store.first_look import (
    COMPACT_NAME,
    DATA_NAME,
    LOCK_NAME,
    check_file,
    check_meta_pages,
    check_plain,
    leave_mark,
    look,
    take_mark,
    vouch,
)
from aos.store.lmdb_binding import (
    commit_failed,
    failed_before,
    failure,
    found_no_room,
    no_room,
    unopened,
)
from aos.store.packs import Packs
from aos.store.plain_files import PlainFolder
from aos.store.room import FULL, allocate, lock_file_bytes
from aos.values.digests import Hash

if TYPE_CHECKING:
    from aos.store.lmdb_binding import Table, Txn

HOME_KEY: Final = b"home"

MAP_BYTES: Final = (1 << 40, 1 << 36, 1 << 33)
"""Address space to reserve: 1 TiB, or less where a limit of the process forbids it (ST-12)."""

READERS_MAX: Final = 512
"""Slots in LMDB's table of readers (ST-14)."""

TABLES: Final = ("system", "frames", "blobs", "intents", "submissions", "meta")
"""Tables that every store has (ST-10)."""

LATER_TABLES: Final = (
    "notes", "erased", "snapshots", "packed", "puts", "names", "deltas", "bases",
)  # fmt: skip
"""Tables that the store of an earlier release may lack. A writer makes them when it opens such a
store; a reader treats a missing one as empty (ST-10a)."""

FORMAT: Final = b"1"
"""The format of a store without deltas (ST-15)."""

FORMAT_WITH_DELTAS: Final = b"2"
"""The format of a store that has, or once had, a delta: releases that do not know deltas must not
open it (ST-15, ST-94)."""

FORMATS: Final = (FORMAT, FORMAT_WITH_DELTAS)
"""The formats that this release reads."""

_FORMAT_KEY: Final = b"format"
_EMPTY_ROOM: Final = 1 << 16
_LIB_VERSION: Final = 0  # data format of LMDB 0.9, whatever the environment variable says

T = TypeVar("T")


class Access(enum.Enum):
    """How an environment is opened."""

    CREATE = "create"
    WRITE = "write"
    READ = "read"


class Environment:
    """An open environment, shared by all stores of this process on one folder."""

    def __init__(self, folder: Path, access: Access, *, looks: bool = True) -> None:
        self.folder = folder
        self.location = str(folder)
        self.readonly = access is Access.READ
        self.users = 1
        self.tables: dict[str, Table] = {}
        self.packs = Packs(folder)
        self._data, self._lock = str(folder / DATA_NAME), str(folder / LOCK_NAME)
        self._looks = looks
        self._swap = threading.Lock()
        self._has_failed = False
        self._vouching: int | None = None
        self._is_lockless = self.readonly and not os.path.lexists(self._lock)
        self._file: tuple[int, int] | None = None
        self._raw = self._open(access, looks=looks)
        self.key = folder_key(folder)

    def read(self, take: Callable[[Txn], T], *, views: bool = False) -> T:
        """Return ``take(transaction)``; it must copy the data that it needs, and return soon
        (ST-6).

        It sees what is durable when the transaction begins, in whole groups only (ST-7). It may be
        called twice, so it must look up ``tables`` itself each time. With ``views`` it gets keys
        and values as views, so LMDB reads only the bytes that it uses.

        Raises:
            Damage, Unavailable: Instead of any ``lmdb.Error`` (ST-17).
        """
        is_second = False
        while True:
            raw = self._raw
            try:
                begun: Any = raw.begin(buffers=True) if views else raw.begin()
                with begun as txn:
                    result = take(txn)
            except lmdb.ReadersFullError as error:
                if is_second or not raw.reader_check():
                    raise failure(error, self.folder) from error
                is_second = True
                continue
            except lmdb.Error as error:
                if raw is self._raw and not self._is_outdated():
                    raise failure(error, self.folder) from error
            else:
                if raw is self._raw and not self._is_outdated():
                    return result
            # A writer may have started meanwhile and not known of this transaction, so the result
            # may mix two commits; or another file has taken the place of the one that was read.
            self._reopen()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Txn]:
        """One read transaction for a long reading. While it lasts, writers cannot use pages again
        that they free, so the file may grow. ``tables`` stay as they are now.

        Raises:
            Damage, Unavailable: Instead of any ``lmdb.Error`` (ST-17), or a writer has begun to use
                the file, or replaced it: what was read may mix two commits.
        """
        raw = self._raw
        try:
            with raw.begin() as txn:
                yield txn
        except lmdb.Error as error:
            raise failure(error, self.folder) from error
        if raw is not self._raw or self._is_outdated():
            raise Unavailable(
                "a writer has replaced the store while it was read",
                location=self.location,
                hint="run the command again",
            )

    @contextlib.contextmanager
    def write(self, needed_bytes: int) -> Iterator[Txn]:
        """Commit everything that the block writes, about ``needed_bytes`` bytes, or nothing (ST-4).

        If the block raises, nothing is written.

        Raises:
            NoRoom, CommitFailed: As ``Store.append``.
        """
        assert not self.readonly, "written to, and opened for reading"
        if self._has_failed:
            raise failed_before(self.folder)
        try:
            with self._raw.begin(write=True) as txn:
                yield txn
        except lmdb.Error as error:
            raise self._commit_failure(error, needed_bytes) from error

    def write_packs(self, blobs: Mapping[Hash, bytes]) -> None:
        """Write a durable pack for each of ``blobs`` (ST-61, ST-62). Raises as ``write``, and
        then leaves no pack behind."""
        if self._has_failed:
            raise failed_before(self.folder)
        try:
            self.packs.write(blobs)
        except OSError as error:
            if error.errno in FULL:
                size = sum(map(len, blobs.values()))
                raise no_room("no room for large blobs", self.folder, size) from error
            self._has_failed = True
            raise commit_failed(error, self.folder) from error

    def has_table(self, name: str) -> bool:
        """Whether there is such a table. A writer may have made it after this reader started."""
        if name not in self.tables:
            with contextlib.suppress(lmdb.NotFoundError), self._swap:
                self.tables[name] = self._raw.open_db(name.encode(), create=False)
        return name in self.tables

    def reader_check(self) -> int:
        """Clear the slots of readers that died; return how many (ST-14)."""
        if self._is_lockless:
            return 0
        try:
            return self._raw.reader_check()
        except lmdb.Error as error:
            raise failure(error, self.folder) from error

    def is_home(self) -> bool | None:
        """Whether the data file is the one that was settled; None if none ever was (ST-70)."""
        row = self.read(lambda txn: txn.get(HOME_KEY, db=self.tables["system"]))
        return None if row is None else row == home_row(self._data)

    def settle(self) -> None:
        """Record that the data file in the folder is the world's own (ST-70)."""
        with self.write(0) as txn:
            txn.put(HOME_KEY, home_row(self._data), db=self.tables["system"])

    def need_deltas(self, txn: Txn) -> None:
        """Mark the store as one that has deltas, in the transaction that writes one (ST-94)."""
        table = self.tables["system"]
        if txn.get(_FORMAT_KEY, db=table) != FORMAT_WITH_DELTAS:
            txn.put(_FORMAT_KEY, FORMAT_WITH_DELTAS, db=table)

    def compact(self) -> None:
        """Replace the file by one that holds the rows and nothing else (ST-50 to ST-53).

        Raises:
            NoRoom: There is no room for a second file of this size. Nothing has changed.
            Damage: A row cannot be read, or the copy cannot be written. Nothing has changed.
            Unavailable: The copy cannot replace the file, or that cannot be synced.
        """
        assert not self.readonly, "compacted, and opened for reading"
        if self._has_failed:
            raise failed_before(self.folder)
        with PlainFolder.at(self.folder) as folder:
            self._compact(folder)

    def _compact(self, folder: PlainFolder) -> None:
        folder.remove(COMPACT_NAME)
        try:
            # Made through the one door, because LMDB opens it by its path (ST-80).
            os.close(folder.create(COMPACT_NAME))
            copy_rows(
                self._raw, self.tables, self.folder / COMPACT_NAME,
                rewritten_row=("system", _FORMAT_KEY),
                home=("system", HOME_KEY) if self.is_home() else None,
            )  # fmt: skip
        except lmdb.Error as error:
            folder.remove(COMPACT_NAME)
            raise self._copy_failure(error) from error
        except OSError as error:
            folder.remove(COMPACT_NAME)
            raise unopened(error, self.folder) from error
        except BaseException:
            folder.remove(COMPACT_NAME)
            raise
        self._close_raw()
        try:
            folder.rename(COMPACT_NAME, DATA_NAME)
            folder.sync()
        except OSError as error:
            problem = f"the compact copy cannot take the place of the file: {error.strerror}"
            raise Unavailable(problem, location=self.location, hint="look at the disk") from error
        finally:
            self._raw = self._open(Access.WRITE, looks=False)

    def close(self) -> None:
        """Close LMDB; a writer without a failure leaves its mark (ST-18b)."""
        self._close_raw()
        if not self.readonly and not self._has_failed:
            leave_mark(self.folder)

    def _close_raw(self) -> None:
        self._raw.close()
        if self._vouching is not None:
            os.close(self._vouching)
            self._vouching = None

    def _file_now(self) -> tuple[int, int] | None:
        """The identity of the data file in the folder; None if there is none."""
        try:
            stat = os.lstat(self._data)
        except FileNotFoundError:
            return None
        return stat.st_dev, stat.st_ino

    # Opening

    def _open(self, access: Access, *, looks: bool) -> lmdb.Environment:
        try:
            if access is Access.CREATE:
                with PlainFolder.at_user_path(self.folder.parent) as parent:
                    parent.inner(self.folder.name, make=True).close()
            else:
                check_file(self.folder)
            check_plain(self.folder, is_written=not self.readonly)
            if not self._is_lockless:
                self._ready_lock_file()
            if access is not Access.CREATE:
                check_meta_pages(self.folder)
                if looks:
                    look(self.folder)
            if not self.readonly:
                # From here on, a crash may leave the file in any state. An unfinished copy is
                # removed, because it may hold values that were erased later (ST-52).
                take_mark(self.folder)
                with PlainFolder.at(self.folder) as folder:
                    folder.remove(COMPACT_NAME)
            # Before LMDB opens it: if another file replaces it right now, the next read notices.
            self._file = self._file_now()
            raw = self._open_raw()
        except lmdb.Error as error:
            raise self._opening_failure(error, access) from error
        except OSError as error:
            raise unopened(error, self.folder) from error
        try:
            if access is Access.CREATE:
                self._create_tables(raw)
            else:
                self._open_tables(raw)
            if not self.readonly:
                self._sweep_packs(raw)
        except lmdb.NotFoundError as error:
            raw.close()
            raise Damage(
                "this is not a whole AOS store: a table is missing",
                location=self.location,
                hint="a world whose making was interrupted can be deleted and made again",
            ) from error
        except lmdb.Error as error:
            raw.close()
            raise self._opening_failure(error, access) from error
        except OSError as error:
            raw.close()
            raise unopened(error, self.folder) from error
        except AosError:
            raw.close()
            raise
        if self._looks and not self._is_lockless:
            self._vouching = vouch(self.folder)
        return raw

    def _ready_lock_file(self) -> None:
        """Allocate all of the lock file on the disk. LMDB writes to it through a memory map: on a
        full disk, a page that is not allocated would end the process (ST-14a).

        Raises:
            NoRoom: There is no room for it.
        """
        size = lock_file_bytes(READERS_MAX)
        try:
            with PlainFolder.at(self.folder) as folder:
                # A reader makes no file (ST-83).
                flags = os.O_RDWR | (0 if self.readonly else os.O_CREAT)
                fd = folder.open(LOCK_NAME, flags, is_sole=True)
            try:
                allocate(fd, size)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in FULL:
                raise no_room("no room to open the store", self.folder, size) from error
            # LMDB reports any other problem of the file itself.

    def _open_raw(self) -> lmdb.Environment:
        for size in MAP_BYTES:
            try:
                return lmdb.open(
                    os.fsencode(self.location),  # text would have to be UTF-8 (ST-12a)
                    map_size=size,
                    readonly=self.readonly,
                    create=False,
                    mode=0o700,
                    max_readers=READERS_MAX,
                    max_dbs=len(TABLES) + len(LATER_TABLES),
                    lock=not self._is_lockless,
                    lib_version=_LIB_VERSION,
                )
            except lmdb.MemoryError:
                continue
        raise Unavailable(
            "no address space for the store",
            location=self.location,
            expected=f"at least {MAP_BYTES[-1] >> 30} GiB",
            hint="raise the limit on virtual memory: ulimit -v unlimited",
        )

    def _create_tables(self, raw: lmdb.Environment) -> None:
        """Make the tables that are missing, also after an attempt that was interrupted (ST-11)."""
        with raw.begin(write=True) as txn:
            for name in (*TABLES, *LATER_TABLES):
                self.tables[name] = raw.open_db(name.encode(), txn=txn)
            if txn.get(b"head", db=self.tables["system"]) is not None:
                raise Refused("a store with a journal is here already", location=self.location)
            txn.put(_FORMAT_KEY, FORMAT, db=self.tables["system"])
        # LMDB syncs its files, but not their names in the folder.
        with PlainFolder.at(self.folder) as folder:
            folder.sync()
        with PlainFolder.at_user_path(self.folder.parent) as parent:
            parent.sync()

    def _open_tables(self, raw: lmdb.Environment) -> None:
        self.tables = {}
        for name in TABLES:
            # In its own transaction: a handle ends with the read transaction that it is opened in.
            self.tables[name] = raw.open_db(name.encode(), create=False)
        with raw.begin() as txn:
            stored_format = txn.get(_FORMAT_KEY, db=self.tables["system"])
        if stored_format not in FORMATS:
            raise Damage(
                "store format",
                location=self.location,
                expected=" or ".join(known_format.decode() for known_format in FORMATS),
                actual="none" if stored_format is None else repr(stored_format[:16])[1:],
                hint="a newer release wrote it, or it is damaged",
            )
        for name in LATER_TABLES:
            with contextlib.suppress(lmdb.NotFoundError):
                self.tables[name] = raw.open_db(name.encode(), create=False)
        missing = [name for name in LATER_TABLES if name not in self.tables]
        if missing and not self.readonly:
            with raw.begin(write=True) as txn:
                for name in missing:
                    self.tables[name] = raw.open_db(name.encode(), txn=txn)

    def _sweep_packs(self, raw: lmdb.Environment) -> None:
        """Remove packs that no row names, left by a crash in a commit or an erasure (ST-65)."""
        with raw.begin() as txn, txn.cursor(db=self.tables["packed"]) as rows:
            self.packs.sweep(rows.set_key)

    def _is_outdated(self) -> bool:
        """Whether a writer has made the lock file (ST-13) or replaced the data file (ST-53)."""
        if not self.readonly:
            return False
        if self._is_lockless and os.path.lexists(self._lock):
            return True
        # If the folder has no data file any more, the open one stays readable.
        return self._file_now() not in (self._file, None)

    def _reopen(self) -> None:
        """Switch to the files that are in the folder now."""
        with self._swap:
            if not self._is_outdated():
                return
            self._close_raw()
            # Before LMDB opens it: other openings of that folder share this environment now.
            with contextlib.suppress(FileNotFoundError):
                self.key = folder_key(self.folder)
            self._is_lockless = not os.path.lexists(self._lock)
            self._raw = self._open(Access.READ, looks=self._looks)

    # Failures

    def _opening_failure(self, error: lmdb.Error, access: Access) -> AosError:
        if access is not Access.READ and found_no_room(error, self.folder, _EMPTY_ROOM):
            return no_room(f"no room to open the store ({error})", self.folder, _EMPTY_ROOM)
        return failure(error, self.folder)

    def _commit_failure(self, error: lmdb.Error, needed_bytes: int) -> AosError:
        if found_no_room(error, self.folder, needed_bytes) and not self._is_dead():
            return no_room(f"no room to commit ({error})", self.folder, needed_bytes)
        self._has_failed = True
        return commit_failed(error, self.folder)

    def _copy_failure(self, error: lmdb.Error) -> AosError:
        needed_bytes = os.lstat(self._data).st_size
        if found_no_room(error, self.folder, needed_bytes):
            return no_room(f"no room for a compact copy ({error})", self.folder, needed_bytes)
        return failure(error, self.folder)

    def _is_dead(self) -> bool:
        """Whether LMDB refuses every further write. It does if it could not write the meta page,
        because the contents of that page on the disk are then unknown (ST-4b)."""
        try:
            self._raw.begin(write=True).abort()
        except lmdb.Error:
            return True
        return False


def folder_key(folder: Path) -> tuple[int, int, int]:
    """A key that is the same for all names of a folder, and differs in a forked process."""
    stat = folder.stat()
    return os.getpid(), stat.st_dev, stat.st_ino
