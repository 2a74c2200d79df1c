"""Wait for the lock of a world that a writer holds which is about to end (spec/host.md, H-54a)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from aos.store.errors import WorldIsHeld
from aos.store.lock import HOLDER_HINT, WorldLock

Report: TypeAlias = Callable[[str], None]

HELD_S: Final = 30.0
"""Seconds that a world whose lock is held may take until its socket answers, or until a writer that
does not run it has ended."""

UNNAMED_S: Final = 1.0
"""Seconds for which a holder is waited for that has not written its name yet."""

TELL_S: Final = 2.0
"""Seconds after which such a wait is reported."""

_PAUSE_S: Final = 0.02


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
