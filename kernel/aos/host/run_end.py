"""The end of a run, which a signal, a client, a problem or the time brings about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aos.errors import AosError
from aos.host.errors import Stopping


class RunEnd:
    """The end of a process that runs a world. Made on the loop's thread; ``note``, ``stopped`` and
    ``pause`` are called from others.

    ``over`` is set when the world is to stop running here, and ``hurry`` when nothing more should
    be waited for. Without ``is_final``, only an owner's term ends: the process follows again.
    ``final_hurry`` is set when nothing more should be waited for at the end of the process.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self.over = asyncio.Event()
        self.hurry = asyncio.Event()
        self.is_final = False
        self.final_hurry = asyncio.Event()
        self.problem: Exception | None = None
        self.is_late = False
        self._report = report
        self._loop = asyncio.get_running_loop()

    def note(self, line: str) -> None:
        self._loop.call_soon_threadsafe(self._report, line)

    def stopped(self, _: AosError) -> None:
        self.pause()
        self._loop.call_soon_threadsafe(self.hurry.set)

    def pause(self) -> None:
        """End the term of an owner."""
        self._loop.call_soon_threadsafe(self.over.set)

    def resume(self) -> None:
        """Another term may begin, or the process follows, unless it is to end."""
        if not self.is_final:
            self.over.clear()
            self.hurry.clear()

    def stop(self) -> None:
        self.is_final = True
        self.over.set()

    def signaled(self) -> None:
        """The first signal ends the run, the second one its wait for others (H-82a)."""
        if self.is_final:
            self.hurry.set()
            self.final_hurry.set()
        self.stop()

    def failed(self, problem: Exception) -> None:
        """End the run: an executor could not take its tasks, and their effects would stay open
        unnoticed (H-83). The problem is raised once everything has stopped."""
        self.problem = self.problem or problem
        self.stop()

    def late(self) -> None:
        """End the run: its time is over."""
        self.is_late = True
        self.stop()

    async def unless_final(self, work: Coroutine[Any, Any, None], sentence: str) -> None:
        """Do a part of the start; it is canceled when the process is to end.

        Raises:
            Stopping: The process is to end, as ``sentence`` says.
            Exception: As ``work``.
        """
        task, over = asyncio.ensure_future(work), asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait((task, over), return_when=asyncio.FIRST_COMPLETED)
            if self.is_final and not task.done():
                raise Stopping(sentence)
            await task
        finally:
            for future in (task, over):
                future.cancel()
            await asyncio.gather(task, over, return_exceptions=True)

    async def awaited(self, max_wait_s: float | None) -> None:
        """Wait until the run is told to stop, or for so many seconds."""
        try:
            async with asyncio.timeout(max_wait_s):
                await self.over.wait()
        except TimeoutError:
            self.late()
