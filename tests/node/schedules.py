"""An event loop whose schedule a test decides: it has no clock and no threads of its own.

Work that the code under test gives to a thread, or to another process, becomes a ``Job``. It is
carried out when the schedule says so, and its caller gets the answer later, or never. Random
schedules draw from one seed, so that a seed is a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Job:
    """A call whose moment the schedule decides. ``is_remote``: another process makes it."""

    def __init__(
        self,
        call: Callable[[], Any],
        answer: asyncio.Future[Any],
        *,
        may_fail: bool,
        is_remote: bool,
    ) -> None:
        self._call = call
        self._answer = answer
        self.may_fail = may_fail
        self.is_remote = is_remote
        self._result: Any = None
        self._problem: BaseException | None = None
        self.is_carried_out = False

    def carry_out(self) -> None:
        """Make the call; its answer is on its way then."""
        self.is_carried_out = True
        try:
            self._result = self._call()
        except Exception as problem:  # noqa: BLE001  # the caller's, as from a thread
            self._problem = problem

    def fail(self, problem: BaseException) -> None:
        """Answer with a problem: instead of the call, or of its answer."""
        self.is_carried_out = True
        self._problem = problem

    def answer(self) -> None:
        """Let the caller have the result."""
        if self._answer.done():
            return
        if self._problem is None:
            self._answer.set_result(self._result)
        else:
            self._answer.set_exception(self._problem)


class _ReadySelector(selectors.SelectSelector):
    """Never waits. A loop that would wait for ever has lost its schedule."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "the schedule waits for something that never happens"
        assert timeout <= 0, "the schedule waits for a time that never comes"
        return []


class ScheduledLoop(asyncio.SelectorEventLoop):
    """``jobs`` are the calls that wait for the schedule, ``clock`` is its time, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(_ReadySelector())
        self._clock = clock
        self.jobs: list[Job] = []

    def time(self) -> float:
        return self._clock()

    def run_in_executor(  # type: ignore[override]  # of no executor
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        # Calls of ``to_thread`` have no executor of their own: they only read.
        return self._add(lambda: func(*args), may_fail=executor is not None, is_remote=False)

    def later(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Let another process make ``call`` when the schedule says so."""
        return self._add(call, may_fail=True, is_remote=True)

    def _add(
        self, call: Callable[[], Any], *, may_fail: bool, is_remote: bool
    ) -> asyncio.Future[Any]:
        answer = self.create_future()
        self.jobs.append(Job(call, answer, may_fail=may_fail, is_remote=is_remote))
        return answer


def scheduled_loop() -> ScheduledLoop:
    """Return the loop that runs now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ScheduledLoop)
    return loop


async def turns(count: int) -> None:
    """Let the loop turn ``count`` times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they are over."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_scheduled(
    scene: Callable[[random.Random], Coroutine[Any, Any, Result]],
    *,
    seed: int,
    clock: Callable[[], float],
) -> Result:
    """Run a scene on a loop of its own. Its choices are those of ``seed``."""
    loop = ScheduledLoop(clock)
    try:
        return loop.run_until_complete(scene(random.Random(seed)))
    except Exception as problem:
        problem.add_note(f"seed {seed}")
        raise
    finally:
        with contextlib.suppress(AssertionError):
            loop.run_until_complete(ended(asyncio.all_tasks(loop)))
        loop.close()
