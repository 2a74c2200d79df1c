"""The file of an index: one writer, any number of readers (spec/index.md, IX-30 to IX-36).

    FOLDER/data.mdb    LMDB: the tables, and the row ``head``
    FOLDER/lock.mdb    of LMDB
    FOLDER/writer      locked while a process writes
    FOLDER/closed      the hash of data.mdb, while no process writes

LMDB does not check what it reads, and a damaged file can end the process. So the file is read
without LMDB first: its hash is that of ``closed``, or a child process reads all of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import lmdb
from blake3 import blake3

from aos.errors import Damage, Unavailable
from aos.read.index.index_errors import BYTES_MAX, damaged, index_errors
from aos.read.index.index_head import IndexHead
from aos.read.index.index_layout import IndexTable
from aos.read.index.index_rows import FileRows
from aos.store.lmdb_binding import Table as LmdbTable
from aos.store.lmdb_binding import Txn
from aos.store.plain_files import PlainFolder
from aos.store.room import allocate, lock_file_bytes
from aos.values.digests import HASH_BYTES

DATA_NAME: Final = "data.mdb"
LOCK_NAME: Final = "lock.mdb"
WRITER_NAME: Final = "writer"
CLOSED_NAME: Final = "closed"
FILES: Final = (DATA_NAME, LOCK_NAME, WRITER_NAME, CLOSED_NAME)

HEAD_TABLE: Final = b"head"
HEAD_KEY: Final = b"head"

CHECK_S: Final = 60.0
CHECK_BYTES_S: Final = 4 << 20
"""Time limit of the child in seconds, and the bytes of the file that add one second to it."""

_CHUNK_BYTES: Final = 1 << 20
_READERS_MAX: Final = 126

Report = Callable[[str], None]
"""Gets one line for people."""


class IndexChange:
    """The rows in a transaction that writes. ``head`` is stored with them when it is committed."""

    def __init__(self, rows: FileRows, head: IndexHead) -> None:
        self.rows = rows
        self.head = head


class IndexFile:
    """An open index. Used by one thread; a process opens a folder at most once.

    Every method may raise ``Damage`` if the file is damaged while it is open, and ``Unavailable``
    if the disk is full or broken; a transaction that raises has changed nothing.
    """

    def __init__(self, folder: Path, *, is_readonly: bool, lock: int | None) -> None:
        """Use ``open_to_write`` or ``open_to_read``."""
        self.folder = folder
        self._lock = lock
        self._is_readonly = is_readonly
        with index_errors(folder):
            self._env = lmdb.open(
                os.fsencode(folder),
                map_size=BYTES_MAX,
                readonly=is_readonly,
                create=not is_readonly,
                mode=0o600,
                sync=False,
                max_readers=_READERS_MAX,
                max_dbs=len(IndexTable) + 1,
                lib_version=0,
            )
        try:
            with index_errors(folder):
                self._head_table = self._env.open_db(HEAD_TABLE, create=not is_readonly)
                self._tables: dict[IndexTable, LmdbTable] = {
                    table: self._env.open_db(table.name.lower().encode(), create=not is_readonly)
                    for table in IndexTable
                }
        except BaseException:
            self._env.close()
            raise

    def head(self) -> IndexHead | None:
        """The row of the index itself; None if there is none of this format."""
        with index_errors(self.folder), self._env.begin() as txn:
            return self._head_in(txn)

    def _head_in(self, txn: Txn) -> IndexHead | None:
        data = txn.get(HEAD_KEY, db=self._head_table)
        return None if data is None else IndexHead.from_bytes(data)

    @contextlib.contextmanager
    def read(self) -> Iterator[tuple[FileRows, IndexHead]]:
        """The rows at one moment. No transaction may write in this process meanwhile."""
        with index_errors(self.folder), self._env.begin() as txn:
            head = self._head_in(txn)
            if head is None:
                raise damaged(self.folder, "no head")
            yield FileRows(txn, self._tables, head.sum), head

    @contextlib.contextmanager
    def write(self, *, empty: IndexHead | None = None) -> Iterator[IndexChange]:
        """Commit all that the block writes, or, if it raises, nothing. With ``empty``, all rows are
        removed first, and that is the head."""
        assert not self._is_readonly, "written to, and opened for reading"
        with index_errors(self.folder), self._env.begin(write=True) as txn:
            if empty is not None:
                for table in self._tables.values():
                    txn.drop(table, delete=False)
            head = empty or self._head_in(txn)
            if head is None:
                raise damaged(self.folder, "no head")
            change = IndexChange(FileRows(txn, self._tables, head.sum), head)
            yield change
            head = replace(change.head, sum=change.rows.sum)
            txn.put(HEAD_KEY, head.to_bytes(), db=self._head_table)

    def sync(self) -> None:
        """Write what was committed to the disk. May be called on another thread."""
        with index_errors(self.folder):
            self._env.sync(True)

    def size_bytes(self) -> int:
        """Bytes of the file on the disk."""
        return (self.folder / DATA_NAME).stat().st_size

    def close(self) -> None:
        """Close the file; a writer leaves the hash of it."""
        if not self._is_readonly:
            with contextlib.suppress(Damage, Unavailable):
                self.sync()
        self._env.close()
        if self._lock is not None:
            with contextlib.suppress(OSError, Damage):
                _leave_hash(self.folder)
            os.close(self._lock)
            self._lock = None

    def abandon(self) -> None:
        """Close the file as a process that is killed does."""
        self._env.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_to_write(folder: Path, report: Report) -> IndexFile | None:
    """Open the index in ``folder``, which is made if it is missing; None if another process writes
    to it. A damaged one is removed first, after a ``report``.

    Raises:
        Damage: A name in the folder is not that of a plain file.
        Unavailable: The folder or the file cannot be opened.
    """
    with (
        index_errors(folder),
        PlainFolder.at_user_path(folder.parent) as parent,
        parent.inner(folder.name, make=True) as files,
    ):
        for name in FILES:
            files.check_file(name, is_sole=True)
        lock = _locked(files)
        if lock is None:
            return None
        try:
            return _open_file(folder, files, lock, report)
        except BaseException:
            os.close(lock)
            raise


def _open_file(folder: Path, files: PlainFolder, lock: int, report: Report) -> IndexFile:
    if files.find(DATA_NAME) is not None:
        problem = what_is_wrong(folder)
        if problem is not None:
            report(f"the index is rebuilt: {problem}")
            for name in (DATA_NAME, LOCK_NAME):
                files.remove(name)
    files.remove(CLOSED_NAME)
    if files.find(DATA_NAME) is None:
        files.remove(LOCK_NAME)
    _ready_lock_file(files)
    return IndexFile(folder, is_readonly=False, lock=lock)


def _ready_lock_file(files: PlainFolder) -> None:
    """Allocate all of LMDB's lock file. It is written to through a memory map: on a full disk, a
    page that is not allocated would end the process (IX-70)."""
    fd = files.open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
    try:
        allocate(fd, lock_file_bytes(_READERS_MAX))
    finally:
        os.close(fd)


def open_to_read(folder: Path) -> IndexFile | None:
    """Open an index without changing anything; None if there is none, or if it may be damaged.

    Raises:
        Damage: A name in the folder is not that of a plain file.
        Unavailable: It cannot be read.
    """
    with index_errors(folder):
        try:
            with PlainFolder.at(folder) as files:
                for name in FILES:
                    files.check_file(name)
                if files.find(DATA_NAME) is None or files.find(LOCK_NAME) is None:
                    return None
                if not _is_locked(files) and not _has_its_hash(folder):
                    return None
        except FileNotFoundError:
            return None
        try:
            return IndexFile(folder, is_readonly=True, lock=None)
        except lmdb.NotFoundError:
            return None


def _locked(files: PlainFolder) -> int | None:
    """The descriptor of the locked file; None if another process holds it."""
    fd = files.open(WRITER_NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_being_written(folder: Path) -> bool:
    """Whether a process has the index in ``folder`` open for writing."""
    try:
        with PlainFolder.at(folder) as files:
            return _is_locked(files)
    except FileNotFoundError:
        return False


def _is_locked(files: PlainFolder) -> bool:
    fd = files.open(WRITER_NAME)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


# Is the file whole?


def what_is_wrong(folder: Path) -> str | None:
    """Why the file may not be opened; None if it is sound. Reads all of it (IX-31)."""
    if (folder / CLOSED_NAME).exists():
        return None if _has_its_hash(folder) else "its file is not as it was closed"
    limit_s = CHECK_S + (folder / DATA_NAME).stat().st_size / CHECK_BYTES_S
    command = [sys.executable, "-m", "aos.read.index.index_check", str(folder)]
    try:
        ended = subprocess.run(  # noqa: S603  # this interpreter, a module of this package
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it could not be read in {limit_s:.0f} s"
    if ended.returncode == 0:
        return None
    return ended.stdout.decode(errors="replace").strip() or "it cannot be read"


def _has_its_hash(folder: Path) -> bool:
    try:
        with PlainFolder.at(folder) as files:
            return files.read(CLOSED_NAME, HASH_BYTES) == _hash(files)
    except (FileNotFoundError, Damage):
        return False


def _leave_hash(folder: Path) -> None:
    with PlainFolder.at(folder) as files:
        files.remove(CLOSED_NAME)
        data = _hash(files)
        try:
            with os.fdopen(files.create(CLOSED_NAME), "wb") as closed:
                closed.write(data)
        except OSError:
            files.remove(CLOSED_NAME)  # a part of the hash would be that of another file
            raise


def _hash(files: PlainFolder) -> bytes:
    hasher = blake3()
    with os.fdopen(files.open(DATA_NAME), "rb") as data:
        while chunk := data.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return hasher.digest()
