"""Threads of plain functions, which never keep their process from ending (X-49).

Nothing can end a function that hangs. Python waits at its end for each thread of a
``ThreadPoolExecutor``, so a process with such a function would never end (W-6).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NoReturn, TypeAlias

from aos.worker.console import flush

_Work: TypeAlias = Callable[[], None]


class CallThreads:
    """At most ``threads_max`` threads, each started when it is first needed."""

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
