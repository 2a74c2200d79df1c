"""The time of this machine, as timers, cron and leases see it (spec/host.md, H-10a), and the only
source of time and randomness of a world: a stamp for each input, a salt for each frame (H-10).

A wall clock that leaps forward is wrong more often than right, and a world cannot forget a stamp
from the future. So the time is the wall clock as long as that agrees with the boot-time clock,
which counts suspension and which no one sets. A wall clock that is further ahead is held back for
some minutes, so that an operator or the time service can correct it first.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aos.boot_clock import boot_ns
from aos.core.journal.frame import SALT_BYTES
from aos.core.journal.records import Stamp
from aos.values.spelling import time_text

MINUTE_NS: Final = 60 * 10**9
LEAP_NS: Final = 5 * MINUTE_NS
"""A wall clock that is ahead by more than this is held back."""

HOLD_NS: Final = 10 * MINUTE_NS
"""How long it is held back."""

ENTROPY_BYTES: Final = 64
_DRAW_BYTES: Final = 4096


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"aos: {text}\n")


@dataclass(frozen=True, slots=True)
class _Leap:
    """A wall clock that is held back since ``since_ns`` of the boot-time clock. ``offset_ns`` is
    the difference between the two."""

    since_ns: int
    offset_ns: int


class MachineClock:
    """Reads both clocks. Used by any thread; a reading takes no lock unless the clock leaps."""

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        boot_ns: Callable[[], int] = boot_ns,
        report: Callable[[str], None] = _to_stderr,
    ) -> None:
        self._wall_ns = wall_ns
        self._boot_ns = boot_ns
        self._report = report
        self._offset_ns = wall_ns() - boot_ns()
        self._leap: _Leap | None = None
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Return the time in ns since 1970.

        It follows the wall clock at once, back and forward, except for leaps of more than
        ``LEAP_NS`` forward: those are reported, held for ``HOLD_NS`` and then followed.
        """
        boot_ns, wall_ns = self._boot_ns(), self._wall_ns()
        if wall_ns - boot_ns - self._offset_ns > LEAP_NS:
            return self._held_back(boot_ns, wall_ns)
        self._offset_ns = wall_ns - boot_ns
        self._leap = None
        return wall_ns

    def _held_back(self, boot_ns: int, wall_ns: int) -> int:
        offset_ns = wall_ns - boot_ns
        with self._lock:
            leap = self._leap
            if leap is None or offset_ns - leap.offset_ns > LEAP_NS:
                # A second leap, on top of the first, is held for the whole time again.
                self._leap = _Leap(boot_ns, offset_ns)
                ahead_min = (offset_ns - self._offset_ns) // MINUTE_NS
                self._report(
                    f"the wall clock leaped to {time_text(wall_ns)}, {ahead_min:,} min ahead of "
                    f"the time since the start: it is followed in {HOLD_NS // MINUTE_NS} min, "
                    "unless it is set back before"
                )
            elif boot_ns - leap.since_ns >= HOLD_NS:
                self._offset_ns, self._leap = offset_ns, None
                self._report(f"the wall clock is followed to {time_text(wall_ns)}")
                return wall_ns
            return boot_ns + self._offset_ns


_clock = MachineClock()
"""The clock of this process."""


def now_ns() -> int:
    """Return the time of this machine in ns since 1970, by the clock of this process."""
    return _clock.now_ns()


def seconds_now() -> int:
    """Return the wall clock in seconds since 1970, as checkpoints and cosignatures have it: no leap
    is held back."""
    return int(time.time())


class _Drawn:
    """Random bytes of the system, drawn many at a time: each system call lets other threads run."""

    def __init__(self) -> None:
        self._unused = b""

    def __call__(self, size: int) -> bytes:
        if len(self._unused) < size:
            self._unused = os.urandom(_DRAW_BYTES)
        drawn, self._unused = self._unused[:size], self._unused[size:]
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where stamps and salts come from; tests pass their own. Used by one thread."""

    clock_ns: Callable[[], int] = now_ns
    random: Callable[[int], bytes] = field(default_factory=_Drawn)

    def stamp(self) -> Stamp:
        """Return the stamp of one input."""
        # The clock of a broken machine may be before 1970, which a stamp cannot express.
        return Stamp(max(0, self.clock_ns()), self.random(ENTROPY_BYTES))

    def stamps(self, count: int) -> list[Stamp]:
        """Return the stamps of inputs that are admitted together, with one time."""
        ns = max(0, self.clock_ns())
        return [Stamp(ns, self.random(ENTROPY_BYTES)) for _ in range(count)]

    def salt(self) -> bytes:
        """Return the salt of one frame."""
        return self.random(SALT_BYTES)
