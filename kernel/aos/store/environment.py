"""One LMDB environment: how it is opened, shared, read and written, and what its errors mean.

LMDB answers with an error code where it can tell and ends the process with a signal where it cannot
(a page that is not in the file). What can be seen beforehand is looked at before it is opened.
Nothing of ``lmdb.Error`` leaves this file (spec/store.md, ST-10 to ST-19).
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import lmdb
from lmdb import verify as lmdb_verify

from aos.errors import AosError, Damage, Refused, Unavailable, sentence
from aos.store.errors import CommitFailed, NoRoom

DATA_NAME: Final = "data.mdb"
LOCK_NAME: Final = "lock.mdb"

MAP_BYTES: Final = (1 << 40, 1 << 36, 1 << 33)
"""Address space to reserve: 1 TiB, or less where a limit of the process forbids it."""

READERS_MAX: Final = 512
TABLES: Final = ("system", "frames", "blobs", "intents", "submissions", "notes", "meta")
FORMAT: Final = b"1"
_FORMAT_KEY: Final = b"format"
_EMPTY_ROOM: Final = 1 << 16
_LIB_VERSION: Final = 0  # data format of LMDB 0.9, whatever the environment variable says

Txn: TypeAlias = "lmdb.Transaction[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001  # its type has no other name
T = TypeVar("T")


class Access(enum.Enum):
    CREATE = "create"
    WRITE = "write"
    READ = "read"


class Environment:
    """An open environment, shared by all stores of this process on one folder."""

    def __init__(self, folder: Path, access: Access) -> None:
        self.folder = folder
        self.where = str(folder)
        self.readonly = access is Access.READ
        self.users = 1
        self.tables: dict[str, Table] = {}
        self._swap = threading.Lock()
        self._has_failed = False
        self._is_lockless = self.readonly and not (folder / LOCK_NAME).exists()
        self._raw = self._open(access)
        stat = (folder / DATA_NAME).stat()
        self.identity = (os.getpid(), stat.st_dev, stat.st_ino)

    def read(self, take: Callable[[Txn], T]) -> T:
        """Return ``take(transaction)``; it must copy what it needs and be quick about it.

        It may be called twice.

        Raises:
            Damage, Unavailable: In place of every ``lmdb.Error``.
        """
        is_second = False
        while True:
            if self._is_lockless and (self.folder / LOCK_NAME).exists():
                self._reopen()
            raw, was_lockless = self._raw, self._is_lockless
            try:
                with raw.begin() as txn:
                    result = take(txn)
            except lmdb.ReadersFullError as error:
                if is_second or not raw.reader_check():
                    raise self._failure(error) from error
                is_second = True
                continue
            except lmdb.Error as error:
                if raw is not self._raw:
                    continue
                raise self._failure(error) from error
            # A writer that came meanwhile did not know of this transaction: what was read may mix.
            if not (was_lockless and (self.folder / LOCK_NAME).exists()):
                return result

    @contextlib.contextmanager
    def write(self, needed: int) -> Iterator[Txn]:
        """Commit what the block writes, about ``needed`` bytes, or nothing of it.

        Raises:
            NoRoom, CommitFailed: See there. Whatever else the block raises, nothing is written.
        """
        assert not self.readonly, "written to, and opened for reading"
        if self._has_failed:
            raise self._failed_before()
        try:
            with self._raw.begin(write=True) as txn:
                yield txn
        except lmdb.Error as error:
            raise self._commit_failure(error, needed) from error

    def reader_check(self) -> int:
        """Clear the slots of readers that died; return how many."""
        if self._is_lockless:
            return 0
        try:
            return self._raw.reader_check()
        except lmdb.Error as error:
            raise self._failure(error) from error

    def close(self) -> None:
        self._raw.close()

    # Opening

    def _open(self, access: Access) -> lmdb.Environment:
        try:
            if access is Access.CREATE:
                self.folder.mkdir(mode=0o700, exist_ok=True)
            else:
                check_file(self.folder)
            raw = self._open_raw()
        except lmdb.Error as error:
            raise self._opening_failure(error, access) from error
        except OSError as error:
            raise self._unopened(error) from error
        try:
            if access is Access.CREATE:
                self._create_tables(raw)
            else:
                self._open_tables(raw)
        except lmdb.NotFoundError as error:
            raw.close()
            raise Damage(
                sentence(
                    "this is not a whole AOS store: a table is missing",
                    where=self.where,
                    hint="a world whose making was interrupted can be deleted and made again",
                )
            ) from error
        except lmdb.Error as error:
            raw.close()
            raise self._opening_failure(error, access) from error
        except OSError as error:
            raw.close()
            raise self._unopened(error) from error
        except AosError:
            raw.close()
            raise
        return raw

    def _open_raw(self) -> lmdb.Environment:
        for size in MAP_BYTES:
            try:
                return lmdb.open(
                    self.where,
                    map_size=size,
                    readonly=self.readonly,
                    create=False,
                    mode=0o700,
                    max_readers=READERS_MAX,
                    max_dbs=len(TABLES),
                    lock=not self._is_lockless,
                    lib_version=_LIB_VERSION,
                )
            except lmdb.MemoryError:
                continue
        raise Unavailable(
            sentence(
                "no address space for the store",
                where=self.where,
                expected=f"at least {MAP_BYTES[-1] >> 30} GiB",
                hint="raise the limit on virtual memory: ulimit -v unlimited",
            )
        )

    def _create_tables(self, raw: lmdb.Environment) -> None:
        """Make what is missing; an interrupted making goes on where it stopped."""
        with raw.begin(write=True) as txn:
            for name in TABLES:
                self.tables[name] = raw.open_db(name.encode(), txn=txn)
            if txn.get(b"head", db=self.tables["system"]) is not None:
                raise Refused(sentence("a store with a journal is here already", where=self.where))
            txn.put(_FORMAT_KEY, FORMAT, db=self.tables["system"])
        # The files are synced by LMDB, their names in the folder are not.
        for folder in (self.folder, self.folder.parent):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _open_tables(self, raw: lmdb.Environment) -> None:
        for name in TABLES:
            # In a transaction of its own: a handle dies with a read transaction that is given.
            self.tables[name] = raw.open_db(name.encode(), create=False)
        with raw.begin() as txn:
            found = txn.get(_FORMAT_KEY, db=self.tables["system"])
        if found != FORMAT:
            raise Damage(
                sentence(
                    "store format",
                    where=self.where,
                    expected=FORMAT.decode(),
                    found="none" if found is None else repr(found[:16])[1:],
                    hint="a newer release wrote it, or it is damaged",
                )
            )

    def _reopen(self) -> None:
        """Go from no lock file to the one that a writer has made."""
        with self._swap:
            if not self._is_lockless:
                return
            self._raw.close()
            self._is_lockless = False
            self._raw = self._open(Access.READ)

    # What an error means

    def _failed_before(self) -> CommitFailed:
        return CommitFailed(
            sentence(
                "an earlier commit failed, so that this store is of no more use",
                where=self.where,
                hint="start again: the world reopens at its last durable record",
            )
        )

    def _unopened(self, error: OSError) -> Unavailable:
        what = f"the store cannot be opened: {error.strerror}"
        return Unavailable(sentence(what, where=self.where))

    def _opening_failure(self, error: lmdb.Error, access: Access) -> AosError:
        if access is Access.CREATE:
            made = self._commit_failure(error, _EMPTY_ROOM)
            if isinstance(made, NoRoom):
                return made
        return self._failure(error)

    def _failure(self, error: lmdb.Error) -> AosError:
        """The error of a read, or of opening."""
        if isinstance(error, lmdb.PanicError):
            return self._failed_before()
        for kind, what, hint in _UNAVAILABLE:
            if isinstance(error, kind):
                return Unavailable(sentence(what, where=self.where, hint=hint))
        if error.code in (errno.EACCES, errno.EPERM, errno.EROFS):
            return Unavailable(
                sentence(
                    f"no permission: {error}",
                    where=self.where,
                    hint=f"a reader too must be able to write {LOCK_NAME}; or read a copy",
                )
            )
        if error.code == 0:
            return Unavailable(sentence(f"the store is not usable: {error}", where=self.where))
        return Damage(
            sentence(
                f"the store cannot be read: {error}",
                where=self.where,
                hint=f"{DATA_NAME} is damaged, or the disk is: restore a backup",
            )
        )

    def _commit_failure(self, error: lmdb.Error, needed: int) -> AosError:
        free = _free_bytes(self.folder)
        # A short write says "input/output error", as a broken disk does: what is left tells.
        is_full = error.code in (errno.ENOSPC, errno.EDQUOT)
        if is_full or (error.code == errno.EIO and free < needed):
            return NoRoom(
                sentence(
                    f"no room to commit ({error})",
                    where=self.where,
                    expected=f"about {needed} bytes",
                    found=f"{free} bytes free",
                    hint="make room; nothing is lost and nothing was acknowledged",
                ),
                needed=needed,
                free=free,
            )
        self._has_failed = True
        hint = "look at the disk; the world reopens at its last durable record"
        if isinstance(error, lmdb.MapFullError):
            hint = "the address space of this process is used up: ulimit -v unlimited"
        return CommitFailed(sentence(f"the commit failed: {error}", where=self.where, hint=hint))


_UNAVAILABLE: Final = (
    (
        lmdb.ReadersFullError,
        f"more than {READERS_MAX} readers at once",
        "end some of them",
    ),
    (
        lmdb.MapResizedError,
        "the store has outgrown what this process reserved for it",
        "open it again, with ulimit -v unlimited",
    ),
    (
        lmdb.MemoryError,
        "no memory to read the store",
        "close other programs",
    ),
)


# Sharing: LMDB may have an environment open once in a process.

_open: Final[dict[tuple[int, int, int], Environment]] = {}
_registry = threading.Lock()


def acquire(folder: Path, access: Access) -> Environment:
    """Open the environment in ``folder``, or join the one that this process has open.

    Give it back with ``release``. Not to be used across a fork.
    """
    with _registry:
        found = _find(folder)
        if found is None:
            made = Environment(folder, access)
            _open[made.identity] = made
            return made
        if access is Access.CREATE:
            raise Refused(sentence("a store is here already, and open", where=str(folder)))
        if access is Access.WRITE and found.readonly:
            raise Unavailable(
                sentence(
                    "this process has the store open for reading, and cannot write it beside",
                    where=str(folder),
                    hint="close it first",
                )
            )
        found.users += 1
        return found


def release(environment: Environment) -> None:
    with _registry:
        environment.users -= 1
        if not environment.users:
            del _open[environment.identity]
            environment.close()


def _find(folder: Path) -> Environment | None:
    try:
        stat = (folder / DATA_NAME).stat()
    except OSError:
        return None
    return _open.get((os.getpid(), stat.st_dev, stat.st_ino))


# What can be seen without LMDB

_META: Final = struct.Struct(("<" if sys.byteorder == "little" else ">") + "16xII8x8xI92xQQ")
"""What matters of an LMDB 0.9 meta page: magic, version, page size, last page, transaction."""

_MAGIC: Final = 0xBEEFC0DE


def check_file(folder: Path) -> None:
    """Look whether the data file is there and as long as its last commit left it.

    LMDB takes a file that was cut off for whole, and dies of SIGBUS when it reads beyond the end.

    Raises:
        Damage: It is missing, empty or cut off.
        OSError: It cannot be looked at.
    """
    path = folder / DATA_NAME
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise Damage(
            sentence("the store's data file is missing", where=str(path), hint="restore a backup")
        ) from None
    try:
        expected = _committed_bytes(fd)
        size = os.fstat(fd).st_size  # after the metas: a writer may be at work
    finally:
        os.close(fd)
    if size == 0:
        raise Damage(
            sentence("the store's data file is empty", where=str(path), hint="restore a backup")
        )
    if expected is not None and size < expected:
        # Pages that are free may lie beyond the end; if one is in use, the walk finds it.
        problems = structure_problems(folder)
        if problems:
            raise Damage(
                sentence(
                    "the store's data file is cut off",
                    where=str(path),
                    expected=f"{expected} bytes",
                    found=f"{size} bytes: {problems[0]}",
                    hint="restore a backup",
                )
            )


def _committed_bytes(fd: int) -> int | None:
    """How long the newer meta page says the file is; None where LMDB itself will refuse it."""
    newest, last_page = -1, 0
    offset, page_bytes = 0, 0
    for _ in range(2):
        data = os.pread(fd, _META.size, offset)
        if len(data) < _META.size:
            return None
        magic, _version, page_bytes, last, txn = _META.unpack(data)
        if magic != _MAGIC:
            return None
        if txn > newest:
            newest, last_page = txn, last
        offset = page_bytes
    return int((last_page + 1) * page_bytes)


def structure_problems(folder: Path) -> list[str]:
    """Walk every page of the data file without LMDB; return what is wrong with it.

    It takes about a second for 10 MB, survives any bytes, and is right only while nobody writes.
    """
    try:
        problems = lmdb_verify.verify(str(folder))  # type: ignore[no-untyped-call]  # it has no types
    except lmdb_verify.VerifyError as error:
        return [str(error)]
    return [str(problem) for problem in problems]


def _free_bytes(folder: Path) -> int:
    stat = os.statvfs(folder)
    blocks = stat.f_bfree if os.geteuid() == 0 else stat.f_bavail
    return blocks * stat.f_frsize
