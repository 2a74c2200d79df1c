"""An event loop for tests of limits of time."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

SLACK_S: Final = 0.05
"""Seconds by which a turn of the loop may be longer than its wait."""


class _NotingSelector(selectors.DefaultSelector):
    waits_s = 0.0
    """How long the last wait may have been."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waits_s = timeout or 0.0
        return super().select(timeout)


class SteadyLoop(asyncio.SelectorEventLoop):
    """Its clock does not count the time in which a busy machine keeps the process from running. So
    a client and a server of one process are late to each other only on purpose."""

    def __init__(self) -> None:
        self._waiting = _NotingSelector()
        self._looked_s = time.monotonic()
        self._lost_s = 0.0
        super().__init__(self._waiting)

    def time(self) -> float:
        now_s = time.monotonic()
        most_s = self._waiting.waits_s + SLACK_S
        self._lost_s += max(0.0, now_s - self._looked_s - most_s)
        self._looked_s, self._waiting.waits_s = now_s, 0.0
        return now_s - self._lost_s


def run_steadily(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        return runner.run(coroutine)
