"""A fixed load, sent by the clock whatever comes of it: how long until an event is durable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Any

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.inputs import EventInput
from benchmarks.figures import NS_PER_S, Spread
from benchmarks.world import World

Json = dict[str, Any]


class Steady:
    """Sends ``rate`` events a second, one in each request."""

    def __init__(self, world: World, events: Iterator[EventInput], *, rate: float) -> None:
        self._world = world
        self._events = events
        self._rate = rate
        self._took: list[int] = []
        self._problems: list[str] = []

    async def run(
        self, *, seconds: float | None = None, until: asyncio.Future[Any] | None = None
    ) -> Json:
        """Send for so long, or until something is done; then wait for what is on its way.

        Raises:
            AssertionError: An event was not admitted, or the world ended.
        """
        self._took = []
        began_ns = time.perf_counter_ns()
        sent = 0
        while not self._is_over(began_ns, seconds, until):
            due_ns = began_ns + int(sent * NS_PER_S / self._rate)
            wait_s = (due_ns - time.perf_counter_ns()) / NS_PER_S
            await asyncio.sleep(max(wait_s, 0))
            self._send()
            sent += 1
        took_s = (time.perf_counter_ns() - began_ns) / NS_PER_S
        await asyncio.to_thread(self._world.watch.engine.wait_quiet)
        self._world.watch.check_alive()
        assert not self._problems, f"{len(self._problems)} failed: {self._problems[0]}"
        assert len(self._took) == sent, f"{sent} events were sent, {len(self._took)} are durable"
        spread = Spread.of_ns(self._took)
        assert spread is not None, "nothing was sent"
        return {
            "sent": sent,
            "seconds": took_s,
            "accept_ms": asdict(spread),
            "worst_ms": max(self._took) / 1e6,
        }

    def _is_over(
        self, began_ns: int, seconds: float | None, until: asyncio.Future[Any] | None
    ) -> bool:
        if until is not None and until.done():
            return True
        if seconds is None:
            return False
        return time.perf_counter_ns() - began_ns >= seconds * NS_PER_S

    def _send(self) -> None:
        event = next(self._events)
        began_ns = time.perf_counter_ns()
        future = self._world.watch.engine.submit([event])
        future.add_done_callback(partial(self._durable, began_ns))

    def _durable(self, began_ns: int, future: Future[list[Answer]]) -> None:
        """On the committer's thread."""
        self._took.append(time.perf_counter_ns() - began_ns)
        problem = future.exception()
        if problem is not None:
            self._problems.append(str(problem))
        else:
            self._problems += [
                str(each) for each in future.result() if not isinstance(each, Admitted)
            ]
