"""The thread that owns a kernel: it opens it, answers for it, and later runs the engine's loop
(spec/host.md, H-10; spec/core.md, CR-11).

    any thread ── call(function) ──▶ the core's thread, one function after another

It has a big stack, because guests run on it, and it is never the main thread. So a signal, which
Python raises in the main thread, never interrupts a kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

from aos.sandbox.stack import big_stacks

T = TypeVar("T")


class CoreThread:
    """Runs functions in the order in which they were submitted, until ``close``.

    It is a daemon: a process that ends does not wait for it.
    """

    def __init__(self) -> None:
        self.is_closing = False
        """Whether ``close`` was called: a long function should end."""
        self._calls: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="aos-core", daemon=True)
        with big_stacks():
            self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether this is the thread that asks."""
        return threading.current_thread() is self._thread

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call ``function`` after all earlier ones. The future has its result or exception."""
        assert not self.is_closing, "nothing would run it"
        future: Future[T] = Future()
        # A caller that gives up waiting must not cancel the future under this thread's hands.
        future.set_running_or_notify_cancel()

        def call() -> None:
            try:
                result = function()
            except BaseException as problem:  # noqa: BLE001  # raised in the caller, of any type
                future.set_exception(problem)
            else:
                future.set_result(result)

        self._calls.put(call)
        return future

    def call(self, function: Callable[[], T]) -> T:
        """As ``submit``, and wait. Raises what ``function`` raises."""
        assert not self.is_current, "it would wait for itself"
        return self.submit(function).result()

    def close(self) -> None:
        """Wait until everything that was submitted has ended, and end the thread. Nothing may be
        submitted afterwards; another ``close`` does nothing."""
        self.is_closing = True
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # While this thread waits, it keeps no kernel alive.
            del call
