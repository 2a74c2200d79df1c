"""One world of many, over all lives of its process (spec/worlds.md, WD-12 to WD-16).

    asleep ──use, or its time──▶ starting ──▶ running ──nothing to do──▶ resting ──▶ asleep
       ▲                            │            │                           │
       └──── stopped by an operator ┴── died ────┴──▶ failed, or starting    └─ busy ─▶ running

Rule 1: a request never meets a world that is about to end: it waits until that process has ended,
and starts the next one.

Rule 2: a world whose process died is started again, whether anyone asks for it or not: it may have
open work. Only after several quick deaths it waits until it is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError, BadUsage, Refused
from aos.host.executors.supervisor import BACKOFF_S, BACKOFF_S_MAX, QUICK_DEATHS_MAX, QUICK_S
from aos.host.executors.task import Report
from aos.host.folder.folder import is_replicated
from aos.node.child_program import kill
from aos.node.problems import Problem
from aos.node.worlds.mounted_world import REST
from aos.node.worlds.relay import Relay
from aos.node.worlds.worlds_folder import Asleep, Hosted, WorldsFolder

READY_S: Final = 120.0
"""Seconds that a request waits for its world: a long journal is folded first."""

STOP_S: Final = 30.0
"""Seconds that a process may take to end in order; then it is killed."""

FAILED_S: Final = 30.0
"""Seconds for which a world that died too often answers requests with its problem; the next one
after them starts it again."""

_LINE_BYTES: Final = 64 * 1024
_DELIBERATE: Final = (Refused.exit_code, BadUsage.exit_code)
"""Exit codes of a process that was started wrongly: it would end in the same way again."""


class HostedPhase(enum.Enum):
    """The state of a world's process."""

    ASLEEP = "asleep"
    STARTING = "starting"
    RUNNING = "running"
    RESTING = "resting"
    """It was told to end if nothing is left to do."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    """By an operator."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """How the worlds of a folder are run. ``command`` is the program of ``mounted_world``, and
    ``line`` makes its settings for a world's name, given the descriptor of its door."""

    folder: WorldsFolder
    command: Sequence[str]
    line: Callable[[str, int], dict[str, Any]]
    sockets: Path
    """A folder that only this process may enter, for the doors."""
    report: Report


class HostedWorld:
    """One world. Used from one event loop."""

    def __init__(self, hosting: Hosting, name: str) -> None:
        self.name = name
        self.phase = HostedPhase.ASLEEP
        self.problem: str | None = None
        """Why it failed."""
        self.pid: int | None = None
        self.uses = 0
        """Requests in progress."""
        self._hosting = hosting
        self._report = hosting.report
        self._hosted = hosting.folder.hosted(name)
        if self._hosted.is_stopped:
            self.phase = HostedPhase.STOPPED
        self._used_s = time.monotonic()
        self._failed_s = 0.0
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._changed = asyncio.Event()
        self._is_closing = False

    # For the node

    @property
    def wake_ns(self) -> int | None:
        """When a sleeping world has something to do, in ns since 1970; None if it waits for
        someone."""
        return None if self._hosted.asleep is None else self._hosted.asleep.wake_ns

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while one is in progress."""
        return 0.0 if self.uses else time.monotonic() - self._used_s

    def wants_to_run(self, now_ns: int) -> bool:
        """Whether a sleeping world has something to do now: its time has come, another process has
        changed its journal, or it is unknown how it ended."""
        if self.phase is not HostedPhase.ASLEEP:
            return False
        asleep = self._hosted.asleep
        if asleep is None or self._hosting.folder.mark(self.name) != asleep.mark:
            # A command writes it at the moment, and runs it as long.
            return not self._hosting.folder.is_held(self.name)
        return asleep.wake_ns is not None and asleep.wake_ns <= now_ns

    def begin(self) -> None:
        """Start the process, if none runs and no operator stopped it. Returns at once."""
        if self._task is None and not (self._is_closing or self._hosted.is_stopped):
            self._move(HostedPhase.STARTING)
            self._task = asyncio.create_task(self._supervise())

    @contextlib.asynccontextmanager
    async def using(self) -> AsyncIterator[Relay]:
        """Keep the world running inside the block. It is started first, if it is asleep.

        Raises:
            Problem: It was stopped, or failed, or does not answer in time (503).
        """
        self.uses += 1
        try:
            yield await self._answering()
        finally:
            self.uses -= 1
            self._used_s = time.monotonic()

    async def _answering(self) -> Relay:
        try:
            async with asyncio.timeout(READY_S):
                while True:
                    if self.phase is HostedPhase.RUNNING and self._relay is not None:
                        return self._relay
                    self._check()
                    if self.phase in (HostedPhase.ASLEEP, HostedPhase.FAILED):
                        self.begin()
                    changed = self._changed
                    await changed.wait()
        except TimeoutError:
            raise Problem(
                503, "world_is_starting",
                f"the world {self.name} does not answer yet (send again in a moment)",
                retry_after_s=5,
            ) from None  # fmt: skip

    def _check(self) -> None:
        if self._is_closing:
            raise Problem(503, "node_is_stopping", "the node is stopping", retry_after_s=5)
        if self._hosted.is_stopped:
            raise Problem(
                503, "world_is_stopped",
                f"the world {self.name} was stopped (aos world start {self.name})",
            )  # fmt: skip
        if self.phase is HostedPhase.FAILED and time.monotonic() - self._failed_s < FAILED_S:
            raise Problem(
                503, "world_has_failed", f"the world {self.name} does not run: {self.problem}",
                retry_after_s=int(FAILED_S),
            )  # fmt: skip

    async def rest(self) -> None:
        """Let the process end if the world has nothing to do. Returns at once."""
        if self.phase is HostedPhase.RUNNING and not self.uses:
            self._move(HostedPhase.RESTING)
            await self._order(REST)

    def reload(self) -> None:
        """Let the process read its settings again, as after SIGHUP (N-6a)."""
        if self._process is not None and self.phase is HostedPhase.RUNNING:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    async def start(self) -> None:
        """Run again, after ``stop``. Raises: Unavailable: That cannot be kept."""
        if self._hosted.is_stopped:
            self._keep(replace(self._hosted, is_stopped=False))
        if self.phase in (HostedPhase.STOPPED, HostedPhase.FAILED, HostedPhase.ASLEEP):
            self.problem = None
            self.begin()

    async def stop(self) -> None:
        """End the process in order, and start none until ``start``.

        Raises:
            Unavailable: That cannot be kept. Nothing has changed.
        """
        self._keep(replace(self._hosted, is_stopped=True))
        await self._end()
        self._move(HostedPhase.STOPPED)

    async def close(self) -> None:
        """End the process in order, because the node ends."""
        self._is_closing = True
        self._move(self.phase)
        await self._end()
        if self._relay is not None:
            await self._relay.close()

    # The process

    def _move(self, phase: HostedPhase) -> None:
        self.phase = phase
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _keep(self, hosted: Hosted) -> None:
        self._hosting.folder.keep(self.name, hosted)
        self._hosted = hosted

    async def _order(self, order: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(order)
                await process.stdin.drain()

    async def _end(self) -> None:
        task = self._task
        if task is None:
            return
        self._move(HostedPhase.STOPPING)
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
        else:
            task.cancel()
        await asyncio.wait({task}, timeout=STOP_S)
        if not task.done():
            self._report(f"the world {self.name} does not end: its process is killed")
            task.cancel()
            await asyncio.wait({task})

    async def _supervise(self) -> None:
        """Run one process after another, until the world rests, is stopped or fails."""
        try:
            await self._lives()
        finally:
            self._task = None
            if self._relay is not None:
                await self._relay.forget()
            phase = HostedPhase.FAILED if self.problem is not None else HostedPhase.ASLEEP
            self._move(HostedPhase.STOPPED if self._hosted.is_stopped else phase)

    async def _lives(self) -> None:
        quick = 0
        while True:
            begun_s = time.monotonic()
            self.problem = None
            self._move(HostedPhase.STARTING)
            try:
                code, is_over = await self._live()
            except (OSError, AosError) as error:
                self._fail(f"it cannot be started: {error}")
                return
            if is_over or self.phase is HostedPhase.STOPPING:
                return
            if code in _DELIBERATE:
                self._fail("it cannot be started; its message is in the output of the node")
                return
            quick = quick + 1 if time.monotonic() - begun_s < QUICK_S else 1
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            if quick >= QUICK_DEATHS_MAX:
                self._fail(
                    f"its process died {quick} times in a row, each time within {QUICK_S:.0f} s of "
                    f"its start ({ending}; its message is in the output of the node)"
                )
                return
            self._report(f"the world {self.name} died ({ending}); it is started again")
            self._move(HostedPhase.STARTING)
            await asyncio.sleep(min(BACKOFF_S * 2.0 ** (quick - 1), BACKOFF_S_MAX))

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._failed_s = time.monotonic()
        self._report(f"the world {self.name} does not run: {problem}")

    async def _live(self) -> tuple[int, bool]:
        """Run one process. Return its exit code, and whether it ended because it was told to.

        Raises:
            OSError, AosError: It cannot be started.
        """
        if self._relay is None:
            self._relay = Relay(self._hosting.sockets / self.name)
        relay, is_over = self._relay, False
        if self._hosted.asleep is not None:
            # It may be killed, and then its end is unknown.
            self._keep(replace(self._hosted, asleep=None))
        paths = os.pathsep.join(path for path in sys.path if path)
        door = relay.door.fileno()
        process = self._process = await asyncio.create_subprocess_exec(
            *self._hosting.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(door,),
            limit=_LINE_BYTES,
            # Ctrl-C is for the node, which ends its worlds in order.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self.pid = process.pid
        try:
            await self._order(json.dumps(self._hosting.line(self.name, door)).encode() + b"\n")
            assert process.stdout is not None
            while line := await _line(process.stdout):
                is_over |= self._hear(line)
            return await process.wait(), is_over
        finally:
            self.pid = self._process = None
            await kill(process)

    def _hear(self, line: bytes) -> bool:
        """Take one line of the process. True if it is the last one."""
        try:
            [(kind, content)] = json.loads(line).items()
        except (ValueError, AttributeError):
            return False
        awaited = {"ready": HostedPhase.STARTING, "busy": HostedPhase.RESTING}.get(kind)
        if awaited is self.phase:
            self._used_s = time.monotonic()
            self._move(HostedPhase.RUNNING)
        elif kind == "ended":
            self._fall_asleep(content)
            return True
        return False

    def _fall_asleep(self, ended: dict[str, Any]) -> None:
        """Keep how the world ended, unless it has work to do: then the next start of the node
        starts it. A node of a replicated world always has: it follows (CL-310)."""
        folder = self._hosting.folder
        mark, asleep = folder.mark(self.name), None
        if mark is not None and not (ended["has_work"] or is_replicated(folder.path / self.name)):
            asleep = Asleep(mark=mark, wake_ns=ended["wake_ns"])
        try:
            self._keep(replace(self._hosted, asleep=asleep))
        except AosError as problem:
            self._report(str(problem))


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end. A line of another program may have any length."""
    while True:
        with contextlib.suppress(ValueError):
            return await stream.readline()
