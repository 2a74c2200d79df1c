"""One sandbox for all worlds of a process, on a thread of its own (spec/testing.md, T-7).

A guest needs a larger stack than a test's thread has (``aos.sandbox.stack``), and a sandbox must
not be used by two threads at the same time. So one thread has both, and compiled modules stay
cached after the world that needed them first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from aos.core.journal.ports import Call, Ran
from aos.errors import Damage
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import big_stacks
from aos.values.digests import Hash, hash_text

T = TypeVar("T")


class SharedSandbox:
    """A module runner. Its methods may only be called from code that ``on_module_thread`` runs."""

    def __init__(self) -> None:
        self._process = 0
        self._lock = threading.Lock()
        self._modules: dict[Hash, bytes] = {}
        self._todo: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._sandbox: Sandbox | None = None

    def add(self, modules: Mapping[Hash, bytes]) -> None:
        self._modules.update(modules)

    def run(self, call: Call) -> Ran:
        if self._sandbox is None:
            self._sandbox = Sandbox(self._load)
        return self._sandbox.run(call)

    def on_module_thread(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the thread that runs modules, and wait. Raises what it raises."""
        self._start()
        ended: Future[T] = Future()

        def do() -> None:
            try:
                ended.set_result(function())
            except BaseException as problem:  # noqa: BLE001  # carried over to the caller
                ended.set_exception(problem)

        self._todo.put(do)
        return ended.result()

    def _start(self) -> None:
        # A forked process has a copy of this object, but not its thread.
        with self._lock:
            if self._process == os.getpid():
                return
            self._process = os.getpid()
            self._todo = SimpleQueue()
            self._sandbox = None
            with big_stacks():
                threading.Thread(
                    target=_serve, args=(self._todo,), name="aos-testing", daemon=True
                ).start()

    def _load(self, hash: Hash) -> bytes:
        module_bytes = self._modules.get(hash)
        if module_bytes is None:
            raise Damage(f"module {hash_text(hash)}: its bytes were never given to a world")
        return module_bytes


def _serve(todo: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        todo.get()()


SHARED = SharedSandbox()
