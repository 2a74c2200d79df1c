"""How long a command waits for a world that makes nothing durable (spec/host.md, H-57a)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TIMEOUT_S: Final = 30.0
REPORT_S: Final = 2.0
"""Seconds after which a wait is reported."""


class WaitPatience:
    """The waits of one command. Time counts only while the world makes no progress: work that takes
    long, such as a large snapshot, has no limit here."""

    def __init__(
        self, timeout_s: float = TIMEOUT_S, *, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self.timeout_s = timeout_s
        self._report = report
        self._since_s: float | None = None
        self._is_reported = False

    def is_over(self, reason: str | None) -> bool:
        """Note why the world makes no progress, None if it does; return whether that has lasted
        too long. The first wait of more than ``REPORT_S`` seconds is reported."""
        now_s = time.monotonic()
        if reason is None:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        waited_s = now_s - self._since_s
        if waited_s >= min(REPORT_S, self.timeout_s) and not self._is_reported:
            self._is_reported = True
            self._report(f"waiting for at most {self.timeout_s:g} s: {reason}")
        return waited_s >= self.timeout_s
