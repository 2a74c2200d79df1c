"""One process writes a world: an advisory lock on a file of its folder (spec/store.md, ST-40).

The operating system releases the lock when its holder ends for any reason, so a crash leaves
nothing to clean up. The text in the file is for people only.

``world_locked`` waits for a writer that is about to end (spec/host.md, H-54a).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from aos.errors import Unavailable, sentence
from aos.store.errors import Holder, WorldIsHeld
from aos.store.plain_files import PlainFolder

LOCK_NAME: Final = "lock"
HOLDER_HINT: Final = "stop that process, or send and apply through it"
_HOLDER_BYTES_MAX: Final = 4096

Report: TypeAlias = Callable[[str], None]

HELD_S: Final = 30.0
"""Seconds that a world whose lock is held may take until its socket answers, or until a writer that
does not run it has ended."""

UNNAMED_S: Final = 1.0
"""Seconds for which a holder is waited for that has not written its name yet."""

TELL_S: Final = 2.0
"""Seconds after which such a wait is reported."""

_PAUSE_S: Final = 0.02


class WorldLock:
    """The right to write the world in ``folder``. Taken by ``acquire`` or ``with``.

    It is not inherited by programs that this process starts. The file stays when it is released.
    ``runs`` tells others that the holder runs the world, and does not end by itself.
    """

    def __init__(self, folder: Path, *, runs: bool = False) -> None:
        self.folder = folder
        self.runs = runs
        self.path = folder / LOCK_NAME
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, or fail at once.

        Raises:
            WorldIsHeld: Another holder has it. Nothing has changed.
            Damage: The lock file is no plain file (ST-80).
            Unavailable: The file cannot be opened.
        """
        assert self._fd is None, "acquired twice"
        try:
            with PlainFolder.at_user_path(self.folder) as folder:
                fd = folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT, is_sole=True)
        except OSError as error:
            raise Unavailable(
                f"the lock file cannot be opened: {error.strerror}",
                location=str(self.path),
                hint="is this a world folder, and may you write to it?",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(fd)
            os.close(fd)
            raise WorldIsHeld(self._held_message(holder), holder=holder) from None
        except OSError as error:
            os.close(fd)
            raise Unavailable(
                f"this file system cannot lock: {error.strerror}",
                location=str(self.path),
                hint="keep world folders on a local disk",
            ) from error
        self._fd = fd
        # A full disk must not stop a writer that could make room; the name is for people only.
        with contextlib.suppress(OSError):
            _write_holder(fd, runs=self.runs)

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
        os.close(fd)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _held_message(self, holder: Holder | None) -> str:
        return sentence(
            f"the world is written by {_who(holder)}",
            location=str(self.folder),
            hint=HOLDER_HINT,
        )


def _who(holder: Holder | None) -> str:
    if holder is None:
        return "another process"
    is_of_host = holder.host == os.uname().nodename
    if is_of_host and holder.namespace not in (None, pid_namespace()):
        return (
            f"a process of another container on {holder.host} (pid {holder.pid} there) since "
            f"{holder.since}"
        )
    if is_of_host and holder.pid == os.getpid():
        return f"this process (pid {holder.pid}) since {holder.since}"
    return f"pid {holder.pid} on {holder.host} since {holder.since}"


def pid_namespace() -> int | None:
    """Return the inode of the pid namespace of this process; None if the system has none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None


def _write_holder(fd: int, *, runs: bool) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    text = json.dumps(
        {
            "pid": os.getpid(), "namespace": pid_namespace(), "host": os.uname().nodename,
            "since": now, "runs": runs,
        }
    )  # fmt: skip
    os.ftruncate(fd, 0)
    os.pwrite(fd, text.encode() + b"\n", 0)


def _read_holder(fd: int) -> Holder | None:
    """Return the holder that the file names; None if a new holder has not written it yet."""
    try:
        match json.loads(os.pread(fd, _HOLDER_BYTES_MAX, 0)):
            case {"pid": int(pid), "host": str(host), "since": str(since), **more}:
                namespace, runs = more.get("namespace"), more.get("runs")
                return Holder(
                    pid=pid,
                    host=host,
                    since=since,
                    namespace=namespace if isinstance(namespace, int) else None,
                    runs=runs if isinstance(runs, bool) else None,
                )
    except (OSError, ValueError):
        pass
    return None


class _LockWait:
    """One wait for a lock, from now on."""

    def __init__(self, report: Report | None) -> None:
        self._began_s = time.monotonic()
        self._report = report

    def check(self, problem: WorldIsHeld) -> None:
        """Return if the holder is worth another look; raise ``problem`` if it is not, because it
        runs the world or has not ended in time."""
        holder = problem.holder
        most_s = 0.0
        if holder is None:
            most_s = UNNAMED_S
        elif holder.runs is False:
            most_s = HELD_S
        waited_s = time.monotonic() - self._began_s
        if waited_s >= most_s:
            raise problem
        if self._report is not None and waited_s >= TELL_S:
            self._report(waiting_text(problem, most_s))
            self._report = None


@contextmanager
def world_locked(path: Path, report: Report | None = None) -> Iterator[None]:
    """Hold the lock of the world at ``path`` for the block.

    Raises:
        WorldIsHeld: A process runs the world, or another holder did not end in time.
    """
    wait, lock = _LockWait(report), WorldLock(path)
    while True:
        try:
            lock.acquire()
        except WorldIsHeld as problem:
            wait.check(problem)
            time.sleep(_PAUSE_S)
        else:
            break
    try:
        yield
    finally:
        lock.release()


async def acquire_to_run(lock: WorldLock, report: Report) -> None:
    """Take the lock for a process that runs the world.

    Raises:
        WorldIsHeld: Another process runs the world, or another holder did not end in time.
    """
    # Small commands that only read import this module.
    import asyncio  # noqa: PLC0415

    wait = _LockWait(report)
    while True:
        try:
            lock.acquire()
        except WorldIsHeld as problem:
            wait.check(problem)
            await asyncio.sleep(_PAUSE_S)
        else:
            return


def waiting_text(problem: WorldIsHeld, most_s: float) -> str:
    """Return the line about a wait of at most so many seconds for the holder of a world."""
    reason = str(problem).removesuffix(f" ({HOLDER_HINT})")
    return f"{reason}: waiting up to {most_s:.0f} s until it answers or ends"
