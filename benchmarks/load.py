"""A point -> samples: callers in the event loop that send the next item when the last one ended."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.inputs import EventInput
from aos.host.errors import Busy
from benchmarks.figures import NS_PER_S, Samples
from benchmarks.plan import BATCH, Point
from benchmarks.watch import Watch

PAUSE_S: Final = 0.002
QUIET_S: Final = 60.0
CHECK_S: Final = 0.5
"""How long it takes until something that went wrong is noticed."""


class Callers:
    """``event(item)`` makes the events of one point. Used once, on the loop of ``run_world``."""

    def __init__(
        self,
        watch: Watch,
        event: Callable[[int], EventInput],
        numbers: Iterator[int],
        point: Point,
    ) -> None:
        self.samples = Samples()
        self._watch = watch
        self._event = event
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._open = 0
        self._refused: list[str] = []
        self._numbers = numbers if point.items is None else itertools.islice(numbers, point.items)
        self._end_ns = time.perf_counter_ns() + int((point.warm_s + point.seconds) * NS_PER_S)
        if point.items is not None:
            self._end_ns = 1 << 62
        self._batch = BATCH if point.cells == "stream" else 1
        self._callers = point.in_flight
        watch.on_finished = self._finished

    async def run(self) -> Samples:
        """Send until the point is over; return when every item has ended and nothing is ready."""
        if self._batch == 1:
            self._send_some(self._callers)
        else:
            await asyncio.gather(*(self._stream() for _ in range(self._callers)))
        while self._open and not self._refused and not self._watch.is_hopeless():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), CHECK_S)
            self._over.clear()
        assert not self._refused, f"{len(self._refused)} items were refused: {self._refused[0]}"
        self._watch.check_alive()
        is_quiet = await asyncio.to_thread(self._watch.engine.wait_quiet, QUIET_S)
        assert is_quiet, f"the world was still at work {QUIET_S:.0f} s after the last item"
        self._watch.check()
        return self.samples

    def _send_some(self, most: int) -> None:
        for _ in range(most):
            item = self._next()
            if item is None:
                return
            self._open += 1
            self.samples.sent[item] = time.perf_counter_ns()
            self._submit([self._event(item)]).add_done_callback(partial(self._accepted, [item]))

    async def _stream(self) -> None:
        """As ``aos send`` does: the next batch goes when one was answered."""
        while True:
            found = [item for _ in range(self._batch) if (item := self._next()) is not None]
            if not found:
                return
            events = [self._event(item) for item in found]
            self._open += len(found)
            self.samples.sent.update(dict.fromkeys(found, time.perf_counter_ns()))
            while True:
                try:
                    future = self._submit(events)
                except Busy:
                    await asyncio.sleep(PAUSE_S)
                else:
                    break
            future.add_done_callback(partial(self._accepted, found))
            await asyncio.wrap_future(future)

    def _submit(self, events: Sequence[EventInput]) -> Future[list[Answer]]:
        return self._watch.engine.submit(events)

    def _next(self) -> int | None:
        if time.perf_counter_ns() >= self._end_ns:
            return None
        return next(self._numbers, None)

    # On the committer's thread

    def _accepted(self, items: Sequence[int], future: Future[list[Answer]]) -> None:
        at_ns = time.perf_counter_ns()
        problem = future.exception()
        if problem is not None:
            self._refused.append(str(problem))
            return
        self._refused += [str(each) for each in future.result() if not isinstance(each, Admitted)]
        self.samples.accepted += [(item, at_ns) for item in items]

    def _finished(self, items: Sequence[int], at_ns: int) -> None:
        self.samples.finished += [(item, at_ns) for item in items]
        self._loop.call_soon_threadsafe(self._ended, len(items))

    # On the loop

    def _ended(self, count: int) -> None:
        self._open -= count
        if self._batch == 1:
            self._send_some(count)
        if not self._open:
            self._over.set()


@contextlib.contextmanager
def busy_thread() -> Iterator[None]:
    """A thread that runs Python all the time, and never waits."""
    is_over = threading.Event()

    def spin() -> None:
        while not is_over.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin, name="busy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
