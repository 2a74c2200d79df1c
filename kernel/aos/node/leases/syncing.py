"""Make rows durable in groups: all changes of one moment share a transaction and a sync (N-54)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from aos.errors import AosError
from aos.node.leases.row import Row
from aos.values.digests import Hash

Changes = Mapping[Hash, Row | None]


class Syncing:
    """Writes changed rows in a thread of its own. Used from one event loop."""

    def __init__(self, write: Callable[[Changes], None]) -> None:
        self._write = write
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leases")
        self._pending: dict[Hash, Row | None] = {}
        self._next: asyncio.Future[None] | None = None
        self._now: asyncio.Future[None] | None = None
        self._running: asyncio.Task[None] | None = None

    def put(self, changes: Changes) -> None:
        """Take changes, to be written with the next group."""
        self._pending.update(changes)

    async def synced(self) -> None:
        """Return once everything that was put before is durable.

        Raises:
            AosError: It could not be written. The changes are kept, and the next call tries again.
        """
        if self._pending:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            if self._running is None:
                self._running = asyncio.ensure_future(self._run())
            await asyncio.shield(self._next)
        elif self._now is not None:
            await asyncio.shield(self._now)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._next is not None:
            group, self._pending = self._pending, {}
            self._now, self._next = self._next, None
            try:
                await loop.run_in_executor(self._thread, self._write, group)
            except AosError as problem:
                self._pending = {**group, **self._pending}
                self._now.set_exception(problem)
                self._now.exception()  # each caller has its own; there may be none any more
            else:
                self._now.set_result(None)
            self._now = None
        self._running = None

    async def close(self) -> None:
        """Write what is left, if possible, and end the thread."""
        with contextlib.suppress(AosError):  # a lease that is not on the disk ends by itself
            await self.synced()
        if self._running is not None:
            await self._running
        self._thread.shutdown()
