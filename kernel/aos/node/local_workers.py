"""Keep the local workers of a node running: start them, restart them, or give up
(spec/node.md, N-9).

A worker is a process of its own, ``python -m aos.node.worker.local_worker``, and a client of the
node as any other. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, Refused, Unavailable
from aos.host.executors.python import path_flags
from aos.host.executors.supervisor import (
    BACKOFF_S,
    BACKOFF_S_MAX,
    QUICK_DEATHS_MAX,
    QUICK_S,
)
from aos.host.executors.task import Report

MODULE: Final = "aos.node.worker.local_worker"

DRAIN_S: Final = 10.0
"""Seconds that the workers may take to end what runs once the node stops; the node takes results
for as long (N-8). Then they are killed, and their tasks are offered again after the next start."""

_DELIBERATE: Final = (Refused.exit_code, BadUsage.exit_code)
"""Exit codes of a worker that was started wrongly: it would end in the same way again."""


class LocalWorkers:
    """One worker for each of ``specs`` (M:A), over all their lives. Used from one event loop.

    ``failed`` is called, with the reason, when a worker is not started any more.
    """

    def __init__(
        self,
        world: Path,
        specs: Sequence[str],
        *,
        report: Report,
        failed: Callable[[Exception], None],
    ) -> None:
        self._world = world
        self._specs = specs
        self._report = report
        self._failed = failed
        self._stopping = asyncio.Event()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers. They wait for the node if it does not answer yet."""
        self._tasks = [asyncio.create_task(self._supervise(spec)) for spec in self._specs]

    async def _supervise(self, spec: str) -> None:
        """Run one worker after another, until that is pointless or the node stops."""
        clock_s = asyncio.get_running_loop().time
        quick = 0
        while not self._stopping.is_set():
            begun_s = clock_s()
            try:
                code = await self._live(spec)
            except OSError as error:
                self._failed(Unavailable(f"the worker {spec} cannot be started: {error}"))
                return
            if self._stopping.is_set():
                return
            if code in _DELIBERATE:
                self._failed(BadUsage(f"the worker {spec} cannot be started; its message is above"))
                return
            quick = quick + 1 if clock_s() - begun_s < QUICK_S else 1
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            if quick >= QUICK_DEATHS_MAX:
                self._failed(
                    Unavailable(
                        f"the worker {spec} died {quick} times in a row, each time within "
                        f"{QUICK_S:.0f} s of its start ({ending}; see its output above); the world "
                        "was stopped, and everything acknowledged is durable"
                    )
                )
                return
            self._report(f"the worker {spec} died ({ending}); it is started again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(BACKOFF_S * 2.0 ** (quick - 1), BACKOFF_S_MAX)):
                    await self._stopping.wait()

    async def _live(self, spec: str) -> int:
        """Run one worker from its start to its end; return its exit code. Raises OSError."""
        paths = os.pathsep.join(path for path in sys.path if path)
        process = self._processes[spec] = await asyncio.create_subprocess_exec(
            sys.executable, *path_flags(spec), "-m", MODULE, str(self._world), spec,
            stdin=subprocess.PIPE,
            # Ctrl-C is for the kernel process, which lets the workers end what runs.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        try:
            return await process.wait()
        finally:
            del self._processes[spec]
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())

    async def stop(self, hurry: asyncio.Event) -> None:
        """Let the workers end what runs, at most ``DRAIN_S`` seconds or until ``hurry``; then kill
        them, and start no other."""
        self._stopping.set()
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        if not self._tasks:
            return
        ended = asyncio.ensure_future(asyncio.gather(*self._tasks, return_exceptions=True))
        hurried = asyncio.create_task(hurry.wait())
        try:
            ends: set[asyncio.Future[Any]] = {ended, hurried}
            await asyncio.wait(ends, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(ended, hurried, return_exceptions=True)
