"""Keep the front of a node running: start it, restart it, or give up (spec/node.md, N-5 to N-8).

The front is a process of its own, which holds no key: ``python -m aos.node.front``. It gets its
settings as a line of JSON on stdin, prints ``ready`` when it answers, and ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.executors.supervisor import (
    BACKOFF_S,
    BACKOFF_S_MAX,
    QUICK_DEATHS_MAX,
    QUICK_S,
)
from aos.host.executors.task import Report

COMMAND: Final = (sys.executable, *QUICK_PROGRAM, "aos.node.front")

READY_S: Final = 60.0
"""Seconds that a front may take until it answers: it restores the state of the world first."""

DRAIN_S: Final = 10.0
"""Seconds that a front may take to answer its last requests (N-8)."""

END_S: Final = 2.0
"""Seconds that it may take to end once its stdin has ended; then it is killed."""

LAST_WORDS_S: Final = 1.0

REPLACE: Final = 75
"""Exit code of a front that another one shall replace at once, because its settings changed."""

_CHUNK_BYTES: Final = 65_536

_DELIBERATE: Final = (Refused.exit_code, BadUsage.exit_code)
"""Exit codes of a front that was started wrongly: it would end in the same way again."""


class FrontProcess:
    """One front, from its start to its end."""

    def __init__(
        self, command: Sequence[str], settings: Mapping[str, Any], fds: Sequence[int]
    ) -> None:
        """Start it. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.is_ready: asyncio.Future[bool] = loop.create_future()
        """Done when it answers, or will not."""
        self.exited: asyncio.Future[int] = loop.create_future()
        """Its exit code."""
        self._is_read: asyncio.Future[None] = loop.create_future()
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(  # noqa: S603  # the command is ours
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=tuple(fds),
            # Ctrl-C is for the kernel process, which lets the front answer its last requests.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        for target in (self._read, self._wait):
            threading.Thread(target=target, args=(loop,), name="aos-front", daemon=True).start()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the line, then read to the end, so that the front can always write."""
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            _tell(loop, self.is_ready, stdout.readline() == b"ready\n")
            while stdout.read(_CHUNK_BYTES):
                pass
        _tell(loop, self._is_read, None)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        _tell(loop, self.exited, self._process.wait())

    def reload(self) -> None:
        """Tell it to read its files again."""
        if not self.exited.done():
            self._process.send_signal(signal.SIGHUP)

    async def end(self) -> None:
        """End its stdin, and kill it if it does not end in time."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        await asyncio.wait({self.exited}, timeout=END_S)
        if not self.exited.done():
            self._process.kill()
        await asyncio.wait({self.exited})
        # A process that it started may still have its stdout.
        await asyncio.wait({self._is_read}, timeout=LAST_WORDS_S)


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: object) -> None:
    """Resolve a future of the loop from another thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for it
        loop.call_soon_threadsafe(_resolve, future, result)


def _resolve(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


class Supervision:
    """The front of a node, over all its lives. Used from one event loop.

    ``failed`` is called when the front is not started any more, with the reason.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        fds: Sequence[int],
        *,
        report: Report,
        failed: Callable[[Exception], None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._settings = settings
        self._fds = tuple(fds)
        self._report = report
        self._failed = failed
        self._command = command
        self._front: FrontProcess | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, hurry: asyncio.Event) -> bool:
        """Start the front and wait until it answers. False if it is given up (``failed`` was
        called), or after ``hurry``."""
        answers: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._supervise(answers))
        hurried = asyncio.create_task(hurry.wait())
        try:
            ends: set[asyncio.Future[Any]] = {answers, self._task, hurried}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
        return answers.done()

    async def _supervise(self, answers: asyncio.Future[None]) -> None:
        """Run one front after another, until that is pointless or the node stops."""
        clock_s = asyncio.get_running_loop().time
        quick = 0
        while not self._stopping.is_set():
            begun_s = clock_s()
            try:
                code = await self._live(answers)
            except OSError as error:
                self._failed(Unavailable(f"the front cannot be started: {error}"))
                return
            if self._stopping.is_set():
                return
            if code == REPLACE:
                continue
            if code in _DELIBERATE:
                self._failed(_refused(code))
                return
            quick = quick + 1 if clock_s() - begun_s < QUICK_S else 1
            if quick >= QUICK_DEATHS_MAX:
                self._failed(_given_up(quick, code))
                return
            self._report(f"the front died ({_ending(code)}); it is started again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(BACKOFF_S * 2.0 ** (quick - 1), BACKOFF_S_MAX)):
                    await self._stopping.wait()

    async def _live(self, answers: asyncio.Future[None]) -> int:
        """Run one front from its start to its end; return its exit code. Raises OSError."""
        front = self._front = FrontProcess(self._command, self._settings, self._fds)
        try:
            await asyncio.wait({front.is_ready}, timeout=READY_S)
            if front.is_ready.done() and front.is_ready.result():
                _resolve(answers, None)
                await asyncio.wait({front.exited})
        finally:
            # One that is not ready in time, or that closed its stdout, is ended too.
            await front.end()
            self._front = None
        return front.exited.result()

    def reload(self) -> None:
        """Tell the front to read its certificate and settings again."""
        if self._front is not None:
            self._front.reload()

    async def stop(self, hurry: asyncio.Event) -> None:
        """Wait until the front has answered its last requests and ended by itself, at most
        ``DRAIN_S`` seconds or until ``hurry``; then end it, and start no other."""
        self._stopping.set()
        if self._task is None:
            return
        hurried = asyncio.create_task(hurry.wait())
        try:
            await asyncio.wait(
                {self._task, hurried}, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            hurried.cancel()
            self._task.cancel()
            await asyncio.gather(self._task, hurried, return_exceptions=True)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _refused(code: int) -> Exception:
    text = "the front cannot serve this world; its message is above"
    return Refused(text) if code == Refused.exit_code else BadUsage(text)


def _given_up(deaths: int, code: int) -> Unavailable:
    return Unavailable(
        f"the front died {deaths} times in a row, each time within {QUICK_S:.0f} s of its start "
        f"({_ending(code)}; see its output above); the world was stopped, and everything "
        "acknowledged is durable"
    )
