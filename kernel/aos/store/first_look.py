"""The store's file before LMDB maps it: is it whole? (spec/store.md, ST-17 to ST-18c)

LMDB trusts the file that it maps. A page that is missing or overwritten ends the process by a
signal, which no code in the process can turn into an error. So this module checks the file from
outside, and lets a child process read a file that is not as its last writer left it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

import lmdb
from lmdb import verify as lmdb_verify

from aos.errors import Damage, Unavailable
from aos.store import meta_pages
from aos.store.packs import FOLDER_NAME as PACKS_NAME
from aos.store.plain_files import PlainFolder
from aos.store.room import RESERVE_NAME
from aos.values.digests import content_hash

DATA_NAME: Final = "data.mdb"
LOCK_NAME: Final = "lock.mdb"
CLOSED_NAME: Final = "closed"
COMPACT_NAME: Final = "data.mdb.compact"
_MARK_BYTES_MAX: Final = 4096

WALK_S: Final = 60.0
WALK_BYTES_S: Final = 4 << 20
"""Time limit of the child in seconds, and the bytes of the file that add one second to it."""

_META: Final = struct.Struct(("<" if sys.byteorder == "little" else ">") + "16xII8x8xI92xQQ")
"""Fields of an LMDB 0.9 meta page: magic, version, page size, last page, transaction."""

_MAGIC: Final = 0xBEEFC0DE

DEADLY: Final = (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
"""Signals that end a process in which LMDB reads a damaged file (ST-18)."""

_FLOCK: Final = struct.Struct("@hhqqi0q")
"""Linux's ``struct flock``: type, whence, start, length, pid."""

_VOUCHED: Final = 1 << 40
"""The byte of LMDB's lock file, far behind its end, that a process locks after it has checked the
store's file (ST-18b)."""


def look(folder: Path) -> None:
    """Check that LMDB can map the file in ``folder`` (ST-18a, ST-18b). Called after ``check_file``.

    Raises:
        Damage: The file is cut off, or ends the process that reads it.
        Unavailable: It could not be read to its end within the time limit.
        OSError: It cannot be read.
    """
    cut = _cut_off(folder)
    if cut is not None or not (_is_vouched_for(folder) or _is_as_it_was_left(folder)):
        _walk(folder, cut)


# The mark that a writer leaves when it closes the store

# The mark does not prove the bytes; only reading them would. It means that no process has written
# to the file since a writer that found no damage closed it. So a disk that loses bits later goes
# unnoticed here; the hash of each value shows it when the value is read (ST-18c).


def leave_mark(folder: Path) -> None:
    """Leave the mark of a writer that has closed the file (ST-18b). A full disk prevents it."""
    with contextlib.suppress(OSError, Damage), PlainFolder.at(folder) as store:
        store.remove(CLOSED_NAME)
        with os.fdopen(store.create(CLOSED_NAME), "w") as mark:
            mark.write(_shape(store))


def take_mark(folder: Path) -> None:
    """Remove the mark, because a writer has opened the file."""
    with contextlib.suppress(OSError), PlainFolder.at(folder) as store:
        store.remove(CLOSED_NAME)


def _is_as_it_was_left(folder: Path) -> bool:
    try:
        with PlainFolder.at(folder) as store:
            return store.read(CLOSED_NAME, _MARK_BYTES_MAX) == _shape(store).encode()
    except OSError:
        return False


def _has_other_metas(folder: Path) -> bool:
    """Whether the mark has the size and time of this file, but other meta pages. A writer removes
    the mark before it changes the file, so the mark must still be there afterwards."""
    try:
        with PlainFolder.at(folder) as store:
            left_mark = store.read(CLOSED_NAME, _MARK_BYTES_MAX)
            found_mark = _shape(store).encode()
            is_there = store.read(CLOSED_NAME, _MARK_BYTES_MAX) == left_mark
    except OSError:
        return False
    left_parts, found_parts = left_mark.split(), found_mark.split()
    is_whole = len(left_parts) == len(found_parts)
    return is_there and is_whole and left_mark != found_mark and left_parts[:2] == found_parts[:2]


def _shape(store: PlainFolder) -> str:
    fd = store.open(DATA_NAME)
    try:
        stat = os.fstat(fd)
        metas = content_hash(b"".join(meta_pages.meta_pages(fd))).hex()
    finally:
        os.close(fd)
    return f"{stat.st_size} {stat.st_mtime_ns} {metas}\n"


# Processes that have checked the file


def vouch(folder: Path) -> int | None:
    """Lock a byte that tells other processes that this one has checked the store and has it open
    (ST-18b). Return the descriptor that holds the lock; None if the system has no such locks.

    Close it only after LMDB has closed the store in this process: closing any descriptor of the
    lock file releases LMDB's own locks on it.
    """
    if sys.platform != "linux":
        return None
    fd = _open_lock(folder)
    if fd is None:
        return None
    lock = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, _VOUCHED, 1, 0)
    with contextlib.suppress(OSError):  # without such locks, every process checks the file
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
    return fd


def _is_vouched_for(folder: Path) -> bool:
    """Whether another process has checked the file and has the store open. Not to be called while
    this process has the store open, because it closes a descriptor of the lock file."""
    if sys.platform != "linux":
        return False
    fd = _open_lock(folder)
    if fd is None:
        return False
    try:
        query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _VOUCHED, 1, 0)
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query)
    except OSError:
        return False
    finally:
        os.close(fd)
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != fcntl.F_UNLCK


def _open_lock(folder: Path) -> int | None:
    """Open LMDB's lock file, for locks on it; None if it cannot be opened."""
    try:
        with PlainFolder.at(folder) as store:
            return store.open(LOCK_NAME)
    except OSError:
        return None


# Checks without LMDB


def check_plain(folder: Path, *, is_written: bool) -> None:
    """Check that the files which LMDB opens by their paths are plain, and the other files of the
    store as well (ST-81).

    Every process that opens the store writes to its lock file, and a writer to its data file. A
    hard link to one of them may be a file of another owner (ST-82).

    Raises:
        Damage: The folder, or a file in it, is not plain.
        OSError: The folder cannot be read.
    """
    with PlainFolder.at(folder) as store:
        store.check_file(DATA_NAME, is_sole=is_written)
        store.check_file(LOCK_NAME, is_sole=True)
        store.check_file(CLOSED_NAME)
        store.check_file(COMPACT_NAME)
        store.check_file(RESERVE_NAME)
        store.check_folder(PACKS_NAME)


def check_file(folder: Path) -> None:
    """Check that there is a data file, and that it is not empty (ST-17).

    Raises:
        Damage: There is none, it is empty, or it is no plain file.
        OSError: It cannot be read.
    """
    path = folder / DATA_NAME
    try:
        fd = _open_data(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise Damage(
            "the store's data file is missing", location=str(path), hint="restore a backup"
        ) from None
    try:
        size = os.fstat(fd).st_size
    finally:
        os.close(fd)
    if size == 0:
        raise Damage("the store's data file is empty", location=str(path), hint="restore a backup")


def _cut_off(folder: Path) -> tuple[int, int] | None:
    """Return the expected and the found size if the file is shorter than its last commit left it.

    LMDB does not notice that. The missing pages may all be free, which does no harm: only reading
    the file shows that.
    """
    fd = _open_data(folder)
    try:
        expected = _committed_bytes(fd)
        size = os.fstat(fd).st_size  # after the metas: a writer may be at work
    finally:
        os.close(fd)
    return None if expected is None or size >= expected else (expected, size)


def check_meta_pages(folder: Path) -> None:
    """Check that LMDB will use the last commit of the data file (ST-17a).

    Raises:
        Damage: One of its meta pages is damaged.
        OSError: The file cannot be read.
    """
    fd = _open_data(folder)
    try:
        problem = meta_pages.what_is_wrong(fd)
    finally:
        os.close(fd)
    if problem is None and _has_other_metas(folder):
        problem = "meta pages that are not as the last writer left them"
    if problem is not None:
        hint = "the last commit may be lost in this file: restore a backup"
        raise _damage(folder, _cut_off(folder), problem, hint)


def _open_data(folder: Path) -> int:
    with PlainFolder.at(folder) as store:
        return store.open(DATA_NAME)


def _committed_bytes(fd: int) -> int | None:
    """Return the file's size by the newer meta page; None if LMDB itself will refuse the file."""
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
    """Read every page of the data file without LMDB, and return the problems found (ST-19).

    It takes about a second for 10 MB, and no file can end the process. The result is valid only if
    no process writes to the store meanwhile.
    """
    try:
        problems = lmdb_verify.verify(str(folder))  # type: ignore[no-untyped-call]  # it has no types
    except lmdb_verify.VerifyError as error:
        return [str(error)]
    return [str(problem) for problem in problems]


# The child


def _walk(folder: Path, cut: tuple[int, int] | None) -> None:
    """Let a child process read all of the file (ST-18a); raises as ``look``.

    If the child cannot be started, or fails for a reason that is not the file, the file is opened
    without this check.
    """
    from aos.store import walk  # noqa: PLC0415  # few starts need the child

    path = folder / DATA_NAME
    packages = Path(lmdb.__file__).parent.parent
    wait_s = WALK_S + path.stat().st_size / WALK_BYTES_S
    command = [sys.executable, "-I", "-S", walk.__file__, str(folder), str(packages)]
    try:
        ended = subprocess.run(  # noqa: S603  # this interpreter, a file of this package, a folder
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=wait_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(
            f"the store's data file could not be read to its end in {wait_s:.0f} s",
            location=str(path),
            hint="look at the disk",
        ) from late
    except OSError:
        return
    if ended.returncode == walk.DAMAGED:
        actual = ended.stdout.decode(errors="replace").strip()
    elif -ended.returncode in DEADLY:
        actual = f"it kills the process that reads it ({signal_name(-ended.returncode)})"
    else:
        return
    hint = "restore a backup; aos verify says how far this one can be read"
    raise _damage(folder, cut, actual, hint)


def _damage(folder: Path, cut: tuple[int, int] | None, actual: str, hint: str) -> Damage:
    problem, expected = "the store's data file is damaged", None
    if cut is not None:
        problem, expected = "the store's data file is cut off", f"{cut[0]} bytes"
        actual = f"{cut[1]} bytes: {actual}"
    location = str(folder / DATA_NAME)
    return Damage(problem, location=location, expected=expected, actual=actual, hint=hint)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGBUS."""
    return signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"
