"""The files of an index: one writer, any number of readers (spec/index.md, IX-30 to IX-36).

    FOLDER/index.db    SQLite: which records, cells and intents there are (index_schema.py)
    FOLDER/values.db   SQLite: values of attributes; only the index of a node has it
    FOLDER/checked     the hashes of both files, as the last checkpoint left them
    FOLDER/writer      locked while a process writes

Both files are in WAL mode, and only a checkpoint writes to them; so a file that has its hash has
each byte that was written. The log is checked by SQLite itself, from its beginning to the last
transaction that is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from aos.closable import Closable
from aos.core.journal.frame import NO_FRAME
from aos.errors import Damage, Unavailable
from aos.read.index import index_errors as errors
from aos.read.index.index_errors import damaged, index_errors
from aos.read.index.index_schema import FORMAT, VALUES, index_tables, values_tables
from aos.store.plain_files import PlainFolder
from aos.values.digests import HASH_BYTES, Hash

INDEX_NAME: Final = "index.db"
VALUES_NAME: Final = "values.db"
CHECKED_NAME: Final = "checked"
WRITER_NAME: Final = "writer"
LOG: Final = "-wal"
DATABASES: Final = (INDEX_NAME, VALUES_NAME)
OLD_FILES: Final = ("data.mdb", "lock.mdb", "closed", "cells.db", "cells.db-wal", "cells.db-shm")
"""Files of the index of earlier releases."""

FILES: Final = (
    *(f"{name}{suffix}" for name in DATABASES for suffix in ("", LOG, "-shm")),
    CHECKED_NAME, WRITER_NAME, *OLD_FILES,
)  # fmt: skip

LOG_BYTES: Final = 4 << 20
"""Bytes of a log from which on it goes into its file."""

LOG_PART: Final = 4
"""A larger file has a longer log, of this part of its size: a checkpoint reads the whole file."""

CACHE_KIB: Final = 32 << 10
BUSY_S: Final = 5.0
STEPS: Final = 10_000
"""Steps of SQLite's machine between two looks at the time, a fraction of a millisecond."""

_CHUNK_BYTES: Final = 1 << 20
_PAGE_BYTES: Final = 4096

# The files may have come with a world from someone else.
_CAREFUL: Final = ("trusted_schema = OFF", "cell_size_check = ON")
_READER: Final = (*_CAREFUL, "temp_store = MEMORY")
_WRITER: Final = (*_CAREFUL, "wal_autocheckpoint = 0")

Report = Callable[[str], None]
"""Gets one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHead:
    """The records and the journal of an index (IX-3).

    ``base`` is the last pruned record, or 0; the rows are of the records from ``base + 1`` to
    ``at``, which ends the frame with the hash ``tip``. ``clock_ns`` is the journal clock there.
    ``cells_at`` is the record of the state that the cells were written from; None while they are
    written. ``has_lists``: the tables that sort for lists are built.
    """

    world: Hash
    base: int = 0
    at: int = 0
    tip: Hash = NO_FRAME
    clock_ns: int = 0
    cells_at: int | None = None
    has_lists: bool = False


class IndexFile(Closable):
    """An open index. Used by one thread; a process opens a folder at most once.

    Every method may raise ``Damage`` if the file is damaged while it is open, and ``Unavailable``
    if the disk is full or broken; a transaction that raises has changed nothing.
    """

    def __init__(
        self, folder: Path, *, lock: int | None, is_readonly: bool, is_quiet: bool = False,
        has_values: bool,
    ) -> None:  # fmt: skip
        """Use ``open_to_write`` or ``open_to_read``."""
        self.folder = folder
        self.has_values = has_values
        self.is_new = False
        """Whether the file had no table when it was opened."""
        self._problem: Exception | None = None
        self._lock = lock
        self._is_readonly = is_readonly
        # Open as long as the database: closing another descriptor of a file drops the locks that
        # SQLite holds on it.
        self._files: dict[str, int] = {}
        try:
            with PlainFolder.at(folder) as files:
                self._open_files(files)
            with index_errors(folder):
                self.db = self._connect(is_quiet=is_quiet)
                self.is_new = not self.rows("SELECT 1 FROM sqlite_schema")
        except BaseException:
            self._close_files()
            raise

    def _open_files(self, files: PlainFolder) -> None:
        for name in _databases(has_values=self.has_values):
            self._files[name] = files.open(name)

    def _connect(self, *, is_quiet: bool) -> sqlite3.Connection:
        # Nothing writes to a quiet index, so it is read without a lock, and no file is made.
        mode = "immutable=1" if is_quiet else "mode=ro" if self._is_readonly else "mode=rw"
        index, values = (self._uri(name, mode) for name in DATABASES)
        db = sqlite3.connect(index, uri=True, isolation_level=None, timeout=BUSY_S)
        try:
            if self.has_values:
                db.execute(f"ATTACH ? AS {VALUES}", (values,))
            for setting in _READER if self._is_readonly else _WRITER:
                db.execute(f"PRAGMA {setting}")
            if not self._is_readonly:
                for schema in self._schemas():
                    db.execute(f"PRAGMA {schema}.journal_mode = WAL")
                    db.execute(f"PRAGMA {schema}.synchronous = NORMAL")
                    db.execute(f"PRAGMA {schema}.cache_size = -{CACHE_KIB}")
                    secure = "ON" if schema == VALUES else "OFF"
                    db.execute(f"PRAGMA {schema}.secure_delete = {secure}")
                    db.execute(
                        f"PRAGMA {schema}.max_page_count = {errors.BYTES_MAX // _PAGE_BYTES}"
                    )
        except BaseException:
            db.close()
            raise
        return db

    def _uri(self, name: str, mode: str) -> str:
        return f"{(self.folder.absolute() / name).as_uri()}?{mode}"

    def limit(self, check_time: Callable[[], None] | None) -> None:
        """Let statements call ``check_time`` meanwhile, and end with what it raises; None ends
        that."""

        def on_steps() -> int:
            assert check_time is not None
            return self.ends_by(check_time)

        self.db.set_progress_handler(None if check_time is None else on_steps, STEPS)

    def ends_by(self, check: Callable[[], object]) -> int:
        """Call a function within a statement: 0, or 1 if it has raised, which the statement then
        raises."""
        try:
            check()
        except Exception as problem:  # noqa: BLE001  # raised once the statement has ended
            self._problem = problem
            return 1
        return 0

    def select(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a statement that reads."""
        self._problem = None
        try:
            with index_errors(self.folder):
                yield from self.db.execute(sql, values)
        except (Damage, Unavailable):
            if self._problem is not None:
                raise self._problem from None
            raise

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement that reads."""
        return list(self.select(sql, values))

    def head(self) -> IndexHead | None:
        """The row of the index itself; None if there is none of this format."""
        with index_errors(self.folder):
            has_one = self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone()
            row = self.db.execute("SELECT * FROM head").fetchone() if has_one else None
        return None if row is None or row[1] != FORMAT else IndexHead(
            world=Hash(row[2]), base=row[3], at=row[4], tip=Hash(row[5]), clock_ns=int(row[6]),
            cells_at=row[7], has_lists=bool(row[8]),
        )  # fmt: skip

    @contextlib.contextmanager
    def read(self) -> Iterator[IndexHead]:
        """The rows at one moment."""
        with index_errors(self.folder):
            self.db.execute("BEGIN")
            try:
                yield self.existing_head()
            finally:
                self.db.execute("ROLLBACK")

    def existing_head(self) -> IndexHead:
        """The row of the index itself.

        Raises:
            Damage: There is none of this format.
        """
        head = self.head()
        if head is None:
            raise damaged(self.folder, "no head")
        return head

    @contextlib.contextmanager
    def write(self) -> Iterator[IndexChange]:
        """Commit all that the block writes, or, if it raises, nothing."""
        assert not self._is_readonly, "written to, and opened for reading"
        with index_errors(self.folder):
            change = IndexChange(self, self.existing_head())
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield change
                self._put_head(change)
                change.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
        self.checkpoint(is_needed=False)

    def _put_head(self, change: IndexChange) -> None:
        head = change.head
        change.execute(
            "INSERT OR REPLACE INTO main.head VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                FORMAT, head.world, head.base, head.at, head.tip, str(head.clock_ns),
                head.cells_at, head.has_lists,
            ),
        )  # fmt: skip
        if self.has_values:
            change.execute(
                f"INSERT OR REPLACE INTO {VALUES}.head VALUES (1, ?, ?)", (head.at, head.tip)
            )

    def begin_again(self, head: IndexHead) -> None:
        """Remove all rows; make the tables without a row of a journal."""
        assert not self._is_readonly
        self.db.close()
        self._close_files()
        with index_errors(self.folder), PlainFolder.at(self.folder) as files:
            _remove_databases(files)
            _make_databases(files, has_values=self.has_values)
            self._open_files(files)
            self.db = self._connect(is_quiet=False)
            self.mark()
        with index_errors(self.folder):
            change = IndexChange(self, head)
            self.db.execute("BEGIN IMMEDIATE")
            for table in (*index_tables(), *(values_tables() if self.has_values else ())):
                change.execute(table)
            self._put_head(change)
            change.execute("COMMIT")

    def problem(self) -> str | None:
        """The first problem that SQLite finds in the pages; None if they are sound."""
        for schema in self._schemas():
            try:
                [(answer,), *_] = self.db.execute(f"PRAGMA {schema}.quick_check(1)").fetchall()
            except sqlite3.DatabaseError as error:
                return str(error)
            if answer != "ok":
                return str(answer)
        return None

    def _schemas(self) -> tuple[str, ...]:
        return ("main", VALUES) if self.has_values else ("main",)

    def remove(self) -> None:
        """Close the files, which are damaged, and remove them; keep the lock."""
        self.leave(keeps_log=True)
        with index_errors(self.folder), PlainFolder.at(self.folder) as files:
            _remove_databases(files)

    def values_are_of(self, head: IndexHead) -> bool:
        """Whether the values are those of the rows: a crash of the machine may leave one file
        behind the other."""
        if not self.has_values:
            return False
        if not self.rows(f"SELECT 1 FROM {VALUES}.sqlite_schema WHERE name = 'head'"):
            return False
        return self.rows(f"SELECT record, frame FROM {VALUES}.head") == [(head.at, head.tip)]

    def make_values(self, change: IndexChange) -> None:
        """Remove all values; make their tables."""
        for (name,) in self.rows(f"SELECT name FROM {VALUES}.sqlite_schema WHERE type = 'table'"):
            change.execute(f"DROP TABLE {VALUES}.{name}")
        for table in values_tables():
            change.execute(table)

    def checkpoint(self, *, is_needed: bool) -> bool:
        """Move the logs into their files, if one is long or ``is_needed``; return whether nothing
        is left in the logs, for which no reader may be in the way."""
        if not is_needed and not any(map(self._is_long, self._files)):
            return False
        with index_errors(self.folder):
            self.db.execute("PRAGMA busy_timeout = 0")
            try:
                left = [
                    self.db.execute(f"PRAGMA {schema}.wal_checkpoint(TRUNCATE)").fetchone()[0]
                    for schema in self._schemas()
                ]
            finally:
                self.db.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
                self.mark()  # also of a part, if there is no room for the rest
        return not any(left)

    def _is_long(self, name: str) -> bool:
        try:
            size = (self.folder / f"{name}{LOG}").stat().st_size
        except FileNotFoundError:
            return False
        return size > LOG_BYTES and size > os.fstat(self._files[name]).st_size // LOG_PART

    def mark(self) -> None:
        """Note the hashes of the files, in place: a full disk has room for that."""
        data = b"".join(map(_hash, self._files.values()))
        with PlainFolder.at(self.folder) as files:
            fd = files.open(CHECKED_NAME, os.O_WRONLY | os.O_CREAT)
            try:
                os.pwrite(fd, data, 0)
                os.ftruncate(fd, len(data))
            finally:
                os.close(fd)

    def is_in_place(self) -> bool:
        """Whether the opened files, and no others, still have their names: a log of another file is
        none of these."""
        opened = {name: os.fstat(fd).st_ino for name, fd in self._files.items()}
        try:
            with PlainFolder.at(self.folder) as files:
                statuses = {name: files.find(name) for name in DATABASES}
        except FileNotFoundError:
            return False
        return opened == {
            name: status.st_ino for name, status in statuses.items() if status is not None
        }

    @property
    def has_writer(self) -> bool:
        """Whether another process had it open for writing when it was opened for reading. Else it
        is locked until it is closed, and none begins to write (IX-32)."""
        return self._is_readonly and self._lock is None

    def size_bytes(self) -> int:
        """Bytes of all pages."""
        pages = [self.rows(f"PRAGMA {schema}.page_count")[0][0] for schema in self._schemas()]
        size: int = _PAGE_BYTES * sum(pages)
        return size

    def close(self) -> None:
        """Close the files; a writer leaves no log, and the hashes of the files."""
        is_clean = self._is_readonly
        with contextlib.suppress(Damage, Unavailable):
            is_clean = is_clean or self.checkpoint(is_needed=True)
        self._end(keeps_log=not is_clean)

    def abandon(self) -> None:
        """Close the files as a process that is killed does."""
        self._end(keeps_log=not self._is_readonly)

    def _end(self, *, keeps_log: bool) -> None:
        self.leave(keeps_log=keeps_log)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def leave(self, *, keeps_log: bool) -> None:
        """Close the files and keep the lock."""
        with contextlib.ExitStack() as stack, contextlib.suppress(sqlite3.Error):
            # The last connection moves the log into its file, except one that only reads.
            for name in self._files if keeps_log else ():
                reader = sqlite3.connect(self._uri(name, "mode=ro"), uri=True)
                stack.callback(reader.close)
                reader.execute("SELECT 1 FROM sqlite_schema").fetchone()
            self.db.close()
        self._close_files()

    def _close_files(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()


class IndexChange:
    """A transaction that writes. ``head`` is stored with its rows when it is committed."""

    def __init__(self, file: IndexFile, head: IndexHead) -> None:
        self.head = head
        self.has_values = file.has_values
        self.db = file.db

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Carry out one statement."""
        return self.db.execute(sql, values)

    def write(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out one statement for each row."""
        self.db.executemany(sql, rows)


def open_to_write(folder: Path, report: Report, *, has_values: bool = False) -> IndexFile | None:
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
            return _open_file(folder, files, lock, report, has_values=has_values)
        except BaseException:
            os.close(lock)
            raise


def _open_file(
    folder: Path, files: PlainFolder, lock: int, report: Report, *, has_values: bool
) -> IndexFile:
    for name in OLD_FILES:
        files.remove(name)
    problem = what_is_wrong(files) if _is_there(files, INDEX_NAME) else None
    if problem is None:
        had_log = _has_log(files)
        is_same = _is_there(files, INDEX_NAME) and _is_there(files, VALUES_NAME) == has_values
        if not has_values:
            _remove_database(files, VALUES_NAME)
        _make_databases(files, has_values=has_values)
        file = IndexFile(folder, lock=lock, is_readonly=False, has_values=has_values)
        try:
            problem = file.problem() if had_log else None
            if problem is None and had_log:
                file.checkpoint(is_needed=True)  # it may have what was erased since
            elif not is_same:
                file.mark()
        except BaseException:
            file.leave(keeps_log=True)
            raise
        if problem is None:
            return file
        file.remove()
    report(f"the index is rebuilt: {problem}")
    _remove_databases(files)
    return _open_file(folder, files, lock, report, has_values=has_values)


def _databases(*, has_values: bool) -> tuple[str, ...]:
    return DATABASES if has_values else DATABASES[:1]


def _is_there(files: PlainFolder, name: str) -> bool:
    return files.find(name) is not None


def _has_log(files: PlainFolder) -> bool:
    """Whether a log has what its file has not. A writer that ends while others read leaves an empty
    one."""
    logs = (files.find(f"{name}{LOG}") for name in DATABASES)
    return any(log is not None and log.st_size for log in logs)


def _make_databases(files: PlainFolder, *, has_values: bool) -> None:
    for name in _databases(has_values=has_values):
        if not _is_there(files, name):
            os.close(files.create(name))  # others may not read it


def _remove_databases(files: PlainFolder) -> None:
    files.remove(CHECKED_NAME)
    for name in DATABASES:
        _remove_database(files, name)


def _remove_database(files: PlainFolder, name: str) -> None:
    for suffix in ("", LOG, "-shm"):
        files.remove(f"{name}{suffix}")


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
                if not _is_there(files, INDEX_NAME):
                    return None
                return _open_found(folder, files)
        except FileNotFoundError:
            return None


def _open_found(folder: Path, files: PlainFolder) -> IndexFile | None:
    lock: int | None = files.open(WRITER_NAME)
    assert lock is not None
    try:
        is_quiet = _lock_shared(lock)
        if is_quiet and what_is_wrong(files) is not None:
            return None
        file = IndexFile(
            folder, lock=lock if is_quiet else None, is_readonly=True,
            is_quiet=is_quiet and not _has_log(files),
            has_values=_is_there(files, VALUES_NAME),
        )  # fmt: skip
        lock = None if is_quiet else lock
        if not file.is_in_place():
            file.close()
            return None
    except (Unavailable, sqlite3.OperationalError):
        return None  # its writer has just ended, or the log cannot be read without writing
    else:
        return file
    finally:
        if lock is not None:
            os.close(lock)


def _locked(files: PlainFolder) -> int | None:
    """The descriptor of the locked file; None if another process holds it."""
    fd = files.open(WRITER_NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _lock_shared(fd: int) -> bool:
    """Whether no process writes; then none begins to before the descriptor is closed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_being_written(folder: Path) -> bool:
    """Whether a process has the index in ``folder`` open for writing."""
    try:
        with PlainFolder.at(folder) as files:
            fd = files.open(WRITER_NAME)
    except FileNotFoundError:
        return False
    try:
        return not _lock_shared(fd)
    finally:
        os.close(fd)


def what_is_wrong(files: PlainFolder) -> str | None:
    """Why the files may not be opened; None if they are sound. Reads all of them (IX-31)."""
    try:
        checked = files.read(CHECKED_NAME, HASH_BYTES * len(DATABASES))
    except FileNotFoundError:
        return "its last writer ended while it wrote to its files"
    hashes = b""
    for name in DATABASES:
        if _is_there(files, name):
            fd = files.open(name)
            try:
                hashes += _hash(fd)
            finally:
                os.close(fd)
    return None if hashes == checked else "its files are not as they were written"


def _hash(fd: int) -> bytes:
    hasher, at = blake3(), 0
    while chunk := os.pread(fd, _CHUNK_BYTES, at):
        hasher.update(chunk)
        at += len(chunk)
    return hasher.digest()
