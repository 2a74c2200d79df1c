"""A machine whose clock says what a test wants, for code that runs in the test's process."""

from __future__ import annotations

import pytest

from aos.boot_clock import boot_ns
from aos.host import stamps
from aos.host.stamps import MachineClock


def set_machine_clock(patch: pytest.MonkeyPatch, now_ns: int, *, runs: bool = False) -> None:
    """Let stamps, timers, leases and views read ``now_ns``, which stands still unless it
    ``runs``, as after the start of a new process."""
    begun_ns = boot_ns()

    def passed_ns() -> int:
        return boot_ns() - begun_ns if runs else 0

    clock = MachineClock(wall_ns=lambda: now_ns + passed_ns(), boot_ns=passed_ns)
    patch.setattr(stamps, "_clock", clock)
