"""The engine of ``run_world``, watched: which step ended an item, and when that was durable.

Nothing is added to the journal and nothing is read from it while it runs: the watch sits on what an
engine is given. The runner tells which item a step is the last of. The n-th step that ran is
durable once the published figures count n steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast
from unittest import mock

from aos.core.journal.ports import Call, Ran, Runner
from aos.core.pending import Sealed
from aos.host.world.engine import Engine
from aos.host.world.restored_world import RestoredWorld
from aos.host.world.unit import Published
from aos.store.store import Store

CALLS_KEPT: Final = 2_048

Finished = Callable[[Call, bytes], int | None]
OnFinished = Callable[[Sequence[int], int], None]
"""(items, when in ns of ``time.perf_counter_ns``), on the committer's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One commit: its last record, the sizes of its blobs, and how long it took."""

    last_seq: int
    blobs: tuple[int, ...]
    ns: int


class Watch:
    """Records the work of one engine. Created before it, and used from its three threads."""

    engine: Engine
    store: Store

    def __init__(self, finished: Finished) -> None:
        self._finished = finished
        self._ended: deque[tuple[int, int]] = deque()
        self.steps = 0
        self._calls: list[Call] = []
        self._seen = 0
        self._random = Random(1)
        self.groups: list[Group] = []
        self.on_finished: OnFinished = lambda _items, _at_ns: None
        self.is_over: Callable[[], bool] = lambda: False

    def ran(self, call: Call, ran: Ran) -> None:
        """On the core's thread, after each step."""
        self.steps += 1
        self._keep(call)
        # One that failed is told by ``is_hopeless`` and ``check``.
        item = None if ran.output is None else self._finished(call, ran.output)
        if item is not None:
            self._ended.append((self.steps, item))

    def _keep(self, call: Call) -> None:
        """Every call has the same chance: those of one kind may come at regular distances."""
        self._seen += 1
        if len(self._calls) < CALLS_KEPT:
            self._calls.append(call)
            return
        place = int(self._random.random() * self._seen)
        if place < CALLS_KEPT:
            self._calls[place] = call

    def take_calls(self) -> tuple[Call, ...]:
        """A sample of the calls since this was asked before. While the engine is quiet."""
        taken, self._calls, self._seen = tuple(self._calls), [], 0
        return taken

    def durable(self, published: Published) -> None:
        """On the committer's thread, after each commit."""
        at_ns = time.perf_counter_ns()
        steps, ended = published.figures.steps, self._ended
        items = []
        while ended and ended[0][0] <= steps:
            items.append(ended.popleft()[1])
        if items:
            self.on_finished(items, at_ns)

    def is_hopeless(self) -> bool:
        """Whether items may never end: the world has, or a step failed."""
        return self.is_over() or self.engine.stats().figures.faults > 0

    def check_alive(self) -> None:
        """Raises: AssertionError: The world ended, or a step failed."""
        assert not self.is_over(), "the world ended"
        faults = self.engine.stats().figures.faults
        assert not faults, f"{faults} steps failed"

    def check(self) -> None:
        """When the engine is quiet: whether the figures may be believed.

        Raises:
            AssertionError: As ``check_alive``, or steps ran that were not seen here.
        """
        self.check_alive()
        found = self.engine.stats().figures
        assert found.steps == self.steps, f"{found.steps} steps ran, {self.steps} were seen"


class _Runner:
    def __init__(self, runner: Runner, watch: Watch) -> None:
        self._runner = runner
        self._watch = watch

    def run(self, call: Call) -> Ran:
        ran = self._runner.run(call)
        self._watch.ran(call, ran)
        return ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


class _Store:
    def __init__(self, store: Store, watch: Watch) -> None:
        self._store = store
        self._watch = watch

    def append(self, group: Sequence[Sealed], *args: Any, **more: Any) -> None:
        began_ns = time.perf_counter_ns()
        self._store.append(group, *args, **more)
        self._watch.groups.append(
            Group(
                last_seq=group[-1].frame.header.last,
                blobs=tuple(len(data) for each in group for data in each.blobs.values()),
                ns=time.perf_counter_ns() - began_ns,
            )
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Inside, ``run_world`` makes an engine that ``watch`` sees."""

    def make(
        world: RestoredWorld,
        *,
        store: Store,
        runner: Runner,
        on_published: Callable[[Published], None] | None = None,
        **more: Any,
    ) -> Engine:
        def published(found: Published) -> None:
            watch.durable(found)
            if on_published is not None:
                on_published(found)

        watch.store = store
        watch.engine = Engine(
            world,
            store=cast(Store, _Store(store, watch)),
            runner=_Runner(runner, watch),
            on_published=published,
            **more,
        )
        return watch.engine

    with mock.patch("aos.host.process.Engine", make):
        yield
