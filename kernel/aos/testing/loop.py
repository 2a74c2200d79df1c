"""The event loop on which a test runs async effect functions, in its own thread (T-25).

It has its own thread because the test itself may run on an event loop, which cannot wait for
another one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from aos.worker.executors import Setup

T = TypeVar("T")

STOP_S = 5.0


class Loop:
    """An event loop that starts when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._leave: list[asyncio.Event] = []
        self._lives: list[Future[None]] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def enter(self, setup: Setup) -> Any:
        """Enter a context manager; ``close`` leaves it. One task does both, which some require."""
        entered: Future[Any] = Future()
        life = asyncio.run_coroutine_threadsafe(self._live(setup, entered), self._started())
        self._lives.append(life)
        return entered.result()

    async def _live(self, setup: Setup, entered: Future[Any]) -> None:
        leave = asyncio.Event()
        try:
            async with setup() as resource:
                self._leave.append(leave)
                entered.set_result(resource)
                await leave.wait()
        except BaseException as problem:
            if entered.done():
                raise
            entered.set_exception(problem)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="aos-testing-effects", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """Leave the context managers, last one first, and stop the loop. Raises their errors."""
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        try:
            for leave, life in zip(reversed(self._leave), reversed(self._lives), strict=False):
                loop.call_soon_threadsafe(leave.set)
                life.result(STOP_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(STOP_S)
            if not thread.is_alive():
                loop.close()
