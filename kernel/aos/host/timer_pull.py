"""Bring the next timers from the kernel to their executor (spec/executors.md, X-21, X-23).

    executor ── few are left ──▶ ask ──▶ kernel's thread, between two frames
       ▲                                            │
       └──── tasks of the next timers ◀── one page ─┘

A page may be ahead of the disk. A timer of it whose frame is not durable yet is left out: it is
published like any other intent, after the page. A timer that ended before the page was read is not
in it; the end of any other is published after the page. So the loop, which gets all of this in
order, neither misses a timer nor sets one that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Final, Protocol, TypeVar

from aos.core.kernel_protocol import KernelFigures, KernelProtocol
from aos.core.state.intent_progress import IntentProgress, OpenTimer
from aos.errors import AosError
from aos.host.errors import Stopping, WorldStopped
from aos.host.executors.task import Task, Timing
from aos.host.world.unit import Published
from aos.manifest.names import TIMER
from aos.values.digests import Hash

T = TypeVar("T")

FIRST: Final = 1_024
"""Timers that a start sets before the world runs."""

PAGE: Final = 256
"""Timers of a later page. The kernel reads them between two frames, so senders wait that long."""


class _RunningKernel(Protocol):
    """The part of an engine that is used here."""

    def between_frames(self, act: Callable[[KernelProtocol], T]) -> Future[T]: ...


class TimerPull:
    """The link between the kernel and the executor of timers. Used from the event loop.

    ``tasks`` makes the tasks of intents that executors run here. ``failed`` gets the problem if
    timers cannot be read. ``on_added`` is called after each page.

    A fork may have inherited timers, which no executor runs here (K-113). A page shows which they
    are, so only the executor's way through the timers finds them, and a start needs no more pages.
    """

    def __init__(
        self,
        timing: Timing,
        engine: _RunningKernel,
        *,
        tasks: Callable[[Iterable[IntentProgress]], list[Task]],
        failed: Callable[[Exception], None],
        on_added: Callable[[], None],
    ) -> None:
        self._timing = timing
        self._engine = engine
        self._tasks = tasks
        self._failed = failed
        self._on_added = on_added
        self._loop = asyncio.get_running_loop()
        self._seq = 0
        """The last record of which everything was published."""
        self._open_timers = 0
        """The open timers at the durable head."""
        self._inherited: set[Hash] = set()
        """Those of them that are inherited, of the pages that came."""
        self.is_reading = False
        """Whether the executor waits for a page that it asked for."""

    @property
    def number(self) -> int:
        """The open timers at the durable head, without the inherited ones of all pages that came.
        When the executor has set all timers, these are all of them."""
        return self._open_timers - len(self._inherited)

    async def start(
        self,
        kernel: KernelProtocol,
        figures: KernelFigures,
        of_kernel: Callable[[Callable[[], Sequence[OpenTimer]]], Awaitable[Sequence[OpenTimer]]],
        *,
        seq: int,
    ) -> int:
        """Set the first timers of a world whose last record is ``seq``, before its engine starts.

        Return how many of the first timers the core itself is about to end."""
        self._seq = seq
        self._open_timers = figures.open_timers
        self._timing.begin(self._request)
        first = await of_kernel(lambda: kernel.open_timers(None, FIRST))
        self._add(None, first, FIRST)
        works = [timer.progress for timer in first]
        return sum(work.is_owed and not work.is_inherited for work in works)

    def published(self, published: Published) -> None:
        """Follow a commit, before its new intents are published and its dropped ones canceled."""
        self._seq = published.figures.seq
        dropped = frozenset(published.dropped)
        self._open_timers = published.figures.open_timers
        self._inherited.difference_update(published.ended)
        self._timing.ended([intent for intent in published.ended if intent not in dropped])

    def canceled(self, dropped: Sequence[Hash], far: Sequence[Hash]) -> None:
        """Follow the cancellation of dropped intents: settle as canceled the timers among ``far``,
        which the executor has not set. There may be intents of other effects among them, and
        timers that the core settled itself."""
        self._timing.ended(dropped)
        if not far:
            return

        def abandoned(kernel: KernelProtocol) -> list[IntentProgress]:
            works = [kernel.progress_of(intent) for intent in far]
            return [
                work
                for work in works
                if work is not None and work.is_abandoned and work.intent.effect.name == TIMER
            ]

        self._read(abandoned, lambda works: self._timing.cancel_tasks(self._tasks(works)))

    def _request(self, after: Hash | None) -> None:
        def add(page: Sequence[OpenTimer]) -> None:
            self.is_reading = False
            self._add(after, page, PAGE)
            self._on_added()

        self.is_reading = True
        self._read(lambda kernel: kernel.open_timers(after, PAGE), add)

    def _read(self, read: Callable[[KernelProtocol], T], take: Callable[[T], None]) -> None:
        """Call ``read`` with the kernel, then ``take`` with the result on the loop."""

        def came(future: Future[T]) -> None:
            try:
                take(future.result())
            except (Stopping, WorldStopped):
                return
            except Exception as problem:  # noqa: BLE001  # there is no caller to raise it to
                self._failed(problem)

        try:
            future = self._engine.between_frames(read)
        except AosError:
            return  # the world ends
        future.add_done_callback(lambda future: self._loop.call_soon_threadsafe(came, future))

    def _add(self, after: Hash | None, page: Sequence[OpenTimer], count: int) -> None:
        """Set the timers of a page of up to ``count``, if they are durable and not inherited."""
        self._inherited.update(
            timer.progress.intent.intent for timer in page if timer.progress.is_inherited
        )
        works = [timer.progress for timer in page if timer.progress.intent.seq <= self._seq]
        until = page[-1].place if len(page) == count else None
        self._timing.add_page(after, self._tasks(works), until)
