"""The code around the process of a node of a replicated world, such as its front: it runs over all
roles of the node (spec/cluster.md, CL-200)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from aos.host.door.following import Followers
from aos.host.run_end import RunEnd

Around = Callable[[], AbstractAsyncContextManager[None]]


class NodeAround:
    """Enters ``around`` once the node has a journal, and leaves it before the process ends. Used
    from one event loop. ``followers`` are those of the part that serves the socket now: the standby
    or the term of an owner."""

    def __init__(self, around: Around | None, followers: Followers, end: RunEnd) -> None:
        self.followers = followers
        self._around = around
        self._end = end
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, has_journal: asyncio.Event) -> None:
        """Enter ``around`` when ``has_journal`` is set."""
        if self._around is not None:
            self._task = asyncio.create_task(self._run(self._around, has_journal))

    async def _run(self, around: Around, has_journal: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (has_journal, self._ending)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._ending.is_set():
            return
        try:
            async with around():
                await self._ending.wait()
        except Exception as problem:  # noqa: BLE001  # raised once everything has stopped
            self._end.failed(problem)

    @contextlib.asynccontextmanager
    async def during_term(self) -> AsyncIterator[None]:
        """Leave ``around`` at the end of the block if the process ends with it."""
        try:
            yield
        finally:
            if self._end.is_final:
                await self.left()

    async def left(self) -> None:
        """Leave ``around``, and wait until it has ended. It ends once."""
        self._ending.set()
        if self._task is not None:
            await asyncio.shield(asyncio.wait({self._task}))
