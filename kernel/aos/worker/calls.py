"""Calls of the author's functions, on other threads than the loop that watches them (X-49).

Async functions run on an event loop in its own thread, plain ones in a pool of threads. The loop
of the main thread only talks to the node and measures timeouts, so that a function that blocks
cannot delay either.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, ParamSpec, Protocol, TypeAlias, TypeVar

from aos.worker.executors import Setup
from aos.worker.redacted_output import flush, show

P = ParamSpec("P")
R = TypeVar("R")

_Work: TypeAlias = Callable[[], None]

_THREADS_OF_CALL: ContextVar[list[Future[Any]] | None] = ContextVar("threads_of_call", default=None)


class _CountedThreads(ThreadPoolExecutor):
    """The threads of ``asyncio.to_thread``. Each call knows those that it began: a canceled call
    has not ended before they have (X-45)."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future = super().submit(fn, *args, **kwargs)
        threads = _THREADS_OF_CALL.get()
        if threads is not None:
            threads[:] = [thread for thread in threads if not thread.done()]
            threads.append(future)
        return future


async def _until_ended(threads: list[Future[Any]]) -> None:
    """Wait for threads, which nothing can end; another cancellation does not end the wait."""
    while running := [thread for thread in threads if not thread.done()]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([asyncio.wrap_future(thread) for thread in running])


class Callee(Protocol):
    """A function of an author, made by ``@effect`` or ``@step``."""

    @property
    def is_async(self) -> bool:
        """Whether a call is awaited."""
        ...

    @property
    def concurrency(self) -> int:
        """Calls that may run at the same time."""
        ...

    @property
    def function(self) -> Callable[[Any, Any], Any]:
        """The function itself; takes params or context, and ctx."""
        ...


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call: its value, or the exception that it raised."""

    value: object = None
    error: BaseException | None = None


class FunctionCall(ABC):
    """One call in progress. Only the watching loop may use ``ended``."""

    def __init__(self) -> None:
        self._control = asyncio.get_running_loop()
        self.ended: asyncio.Future[CallEnd] = self._control.create_future()

    @abstractmethod
    def cancel(self) -> None:
        """Request cancellation. It has no effect on a plain function that is running."""

    @property
    @abstractmethod
    def cancel_arrived(self) -> bool:
        """Whether ``cancel`` arrived; if it stays False, the event loop is blocked."""

    def _finish(self, ended: CallEnd) -> None:
        """Report the end. Called from the thread of the call."""
        # The watching loop is closed only when the process is about to end.
        with contextlib.suppress(RuntimeError):
            self._control.call_soon_threadsafe(self._set, ended)

    def _set(self, ended: CallEnd) -> None:
        if not self.ended.done():
            self.ended.set_result(ended)


class _AsyncCall(FunctionCall):
    """A call on the event loop of the async functions, which ``cancel`` interrupts at its next
    await."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        function: Callee,
        params: object,
        ctx: object,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._cancel_arrived = False
        loop.call_soon_threadsafe(self._begin, function, params, ctx)

    def _begin(self, function: Callee, params: object, ctx: object) -> None:
        self._task = self._loop.create_task(self._body(function, params, ctx))

    async def _body(self, function: Callee, params: object, ctx: object) -> None:
        threads: list[Future[Any]] = []
        _THREADS_OF_CALL.set(threads)
        try:
            value = await function.function(params, ctx)
        except BaseException as error:  # noqa: BLE001  # SystemExit would end the loop of all others
            await _until_ended(threads)
            self._finish(CallEnd(error=error))
        else:
            self._finish(CallEnd(value))

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._cancel_arrived = True
        if self._task is not None:
            self._task.cancel()

    @property
    def cancel_arrived(self) -> bool:
        return self._cancel_arrived


class _PlainCall(FunctionCall):
    """A call in a thread of its own. Nothing can end it, so ``cancel`` does nothing."""

    def __init__(
        self,
        threads: CallThreads,
        function: Callee,
        params: object,
        ctx: object,
    ) -> None:
        super().__init__()
        threads.submit(partial(self._body, function, params, ctx))

    def _body(self, function: Callee, params: object, ctx: object) -> None:
        try:
            value = function.function(params, ctx)
        except BaseException as error:  # noqa: BLE001  # the thread serves the next call
            self._finish(CallEnd(error=error))
        else:
            self._finish(CallEnd(value))

    def cancel(self) -> None:
        pass

    @property
    def cancel_arrived(self) -> bool:
        return True


class Callers:
    """The event loop of the async functions, in its thread, and the threads of the plain ones."""

    def __init__(self, functions: Iterable[Callee]) -> None:
        plain = sum(function.concurrency for function in functions if not function.is_async)
        self._threads = CallThreads(max(plain, 1))
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_CountedThreads(thread_name_prefix="thread"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="effects", daemon=True)
        self._leave = asyncio.Event()
        self._lifespan: Future[None] | None = None
        self._setup_task: asyncio.Task[None] | None = None

    def begin(self, function: Callee, params: object, ctx: object) -> FunctionCall:
        """Begin a call and return at once; to be called on the watching loop. A plain function
        always finds a free thread: there is one for each call that may run at the same time
        (X-42, X-49)."""
        if function.is_async:
            return _AsyncCall(self._loop, function, params, ctx)
        return _PlainCall(self._threads, function, params, ctx)

    async def start(self, setup: Setup | None) -> object:
        """Start the loop, enter ``setup`` on it, return what it yields. Raises what it raises."""
        self._thread.start()
        if setup is None:
            return None
        entered: Future[CallEnd] = Future()
        self._lifespan = asyncio.run_coroutine_threadsafe(self._live(setup, entered), self._loop)
        ended = await asyncio.wrap_future(entered)
        if ended.error is not None:
            raise ended.error
        return ended.value

    async def _live(self, setup: Setup, entered: Future[CallEnd]) -> None:
        # One task enters and leaves: a cancel scope or task group in ``setup`` insists on that.
        self._setup_task = asyncio.current_task()
        try:
            async with setup() as resource:
                entered.set_result(CallEnd(resource))
                await self._leave.wait()
        except BaseException as error:  # noqa: BLE001  # ``start`` raises it, of any type
            if entered.done():
                show(error)
            else:
                entered.set_result(CallEnd(error=error))

    async def stop(self, seconds: float) -> None:
        """Cancel async calls and leave ``setup``; calls that do not end in time are abandoned."""
        self._threads.close()
        if not self._thread.is_alive():
            return
        leaving = asyncio.run_coroutine_threadsafe(self._end_all(), self._loop)
        await asyncio.wait({asyncio.wrap_future(leaving)}, timeout=seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _end_all(self) -> None:
        this_task = asyncio.current_task()
        calls = [
            task
            for task in asyncio.all_tasks()
            if task is not this_task and task is not self._setup_task
        ]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        self._leave.set()
        if self._lifespan is not None:
            await asyncio.wrap_future(self._lifespan)

    def close(self) -> None:
        """Free the event loop, after ``stop``. Needed only if the process continues (tests)."""
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._loop.close()


class CallThreads:
    """Threads of plain functions, which never keep their process from ending (X-49).

    There are at most ``threads_max``, each started when it is first needed. Nothing can end a
    function that hangs. Python waits at its end for each thread of a ``ThreadPoolExecutor``, so a
    process with such a function would never end (W-6).
    """

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._count = 0
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, work: _Work) -> None:
        """Run ``work``, which does not raise, in a free thread. After ``close`` it does not run."""
        with self._lock:
            if self._is_closed:
                return
            self._work.put(work)
            if self._idle.acquire(blocking=False) or self._count == self._threads_max:
                return
            self._count += 1
            name = f"effect_{self._count}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def close(self) -> None:
        """Begin nothing more, and let each thread end once its function does."""
        with self._lock:
            self._is_closed = True
            while not self._work.empty():
                self._work.get_nowait()
            for _ in range(self._count):
                self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # it keeps params and result
            self._idle.release()


def end_process(code: int) -> NoReturn:
    """End the process with an exit code, also while functions run that nothing can end: Python
    would wait for the threads that an async function has begun, or could meet a thread in the
    middle of a print, which aborts the process."""
    if threading.active_count() > 1:
        flush()
        os._exit(code)
    sys.exit(code)
