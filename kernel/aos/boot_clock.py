"""The boot-time clock of this machine: it counts suspension, and no one sets it.

A process can be suspended for any time, and a wall clock can be set. What must know how much time
has really passed, such as a lease, counts it on this clock.
"""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Elsewhere than on Linux, CLOCK_MONOTONIC is the clock that counts suspension, if any does."""


def boot_ns() -> int:
    """Return the ns since the machine was started, suspension included. It never goes back."""
    return time.clock_gettime_ns(_CLOCK)


def boot_s() -> float:
    """Return ``boot_ns`` in seconds."""
    return time.clock_gettime(_CLOCK)
