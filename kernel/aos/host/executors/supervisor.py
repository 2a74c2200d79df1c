"""Keep one worker process running: start it, restart it, or give up (X-50 to X-58).

The supervisor knows nothing of tasks. It reports to the executor when a process is ready and when
one has ended; the executor decides what becomes of the tasks that the process had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aos.host.executors.life import STALL_S, Life, NotReady, Ready
from aos.host.executors.task import Report
from aos.values.digests import Hash
from aos.worker.wire import Message

QUICK_S: Final = 10.0
"""A process that lived for fewer seconds died quickly."""

QUICK_DEATHS_MAX: Final = 5
BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 5.0
"""Pause before a restart: the first, and the longest after quick deaths in a row (X-56)."""


class Supervisor:
    """The process of one executor, over all its lives.

    ``is_lazy`` starts the first process at ``want`` rather than at ``start``; such an executor has
    its name already, while another takes the one that its process reports. ``life`` is the current
    process, also while it starts or ends; ``is_ready`` says that it takes tasks.

    ``on_ready`` is called with each process that is ready, ``on_end`` after each end with how it
    ended: it returns whether one of the tasks is to blame, so that the process itself is not.
    ``on_over`` is called when the process is not started again. ``open_tasks`` is only reported.
    """

    def __init__(
        self,
        *,
        label: str,
        command: Sequence[str],
        world: Hash | None,
        report: Report,
        is_lazy: bool,
        on_message: Callable[[Message], None],
        on_ready: Callable[[Ready], None],
        on_end: Callable[[str], bool],
        on_over: Callable[[], None],
        open_tasks: Callable[[], int],
        environment: Mapping[str, str] | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        self.name = label
        self.environment = environment
        self.life: Life | None = None
        self.is_ready = False
        self.is_stuck = False
        self.is_stopping = False
        self.is_over = False
        self._command = command
        self._world = world
        self._report = report
        self._is_lazy = is_lazy
        self._on_message = on_message
        self._on_ready = on_ready
        self._on_end = on_end
        self._on_over = on_over
        self._open_tasks = open_tasks
        self._stall_s = stall_s
        self._has_tasks = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether ``start`` was called."""
        return self._task is not None

    async def start(self) -> None:
        """Start the process and wait until it is ready; a lazy one waits for ``want`` instead.

        Raises:
            NotReady: The process cannot load its functions, or ended before it was ready.
        """
        loop = asyncio.get_running_loop()
        first: asyncio.Future[NotReady | None] = loop.create_future()
        if self._is_lazy:
            first.set_result(None)
        else:
            self.want()
        self._task = loop.create_task(self._supervise(first))
        self._task.add_done_callback(lambda task: self._supervised(task, first))
        problem = await first
        if problem is not None:
            raise problem

    def want(self) -> None:
        """There are tasks: start the process if it waits for one."""
        self._has_tasks.set()

    def send(self, message: Message) -> None:
        """Send a message to the current process; there may be none, then nothing is sent."""
        if self.life is not None:
            self.life.send(message)

    def end_stuck(self, reason: object) -> None:
        """End the process, which has reported that it is stuck. It is started again at once."""
        if self.life is None:
            return
        self.is_stuck = True
        self._report(f"executor {self.name}: {reason}; its process is ended and started again")
        self.life.kill()

    async def stop(self) -> None:
        """End the process and start no other."""
        self.is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _supervise(self, first: asyncio.Future[NotReady | None]) -> None:
        """Run one process after another, until that is pointless (X-58) or the node stops."""
        clock = asyncio.get_running_loop().time
        quick = 0
        await self._has_tasks.wait()
        while not self.is_stopping:
            begun = clock()
            self.is_stuck = False
            try:
                ending = await self._live(first)
            except NotReady as problem:
                if not first.done():
                    first.set_result(problem)
                    return
                ending = str(problem)
            is_explained = self._on_end(ending)
            if is_explained or self.is_stuck:
                quick = 0
            else:
                quick = quick + 1 if clock() - begun < QUICK_S else 1
            if quick >= QUICK_DEATHS_MAX:
                self.is_over = True
                self._tell_over(quick, ending)
                self._on_over()
                return
            if not self.is_stuck and not self.is_stopping:
                self._tell_restart(ending)
                await asyncio.sleep(min(BACKOFF_S * 2.0 ** max(quick - 1, 0), BACKOFF_S_MAX))

    async def _live(self, first: asyncio.Future[NotReady | None]) -> str:
        """Run one process from its start to its end; return how it ended."""
        life = Life(
            self._command,
            label=self.name,
            report=self._report,
            on_message=self._on_message,
            environment=self.environment,
            stall_s=self._stall_s,
        )
        self.life = life
        try:
            ready = await life.begin(self._world)
            if not self._is_lazy:
                self.name = life.label = ready.name
            self.is_ready = True
            self._on_ready(ready)
            if not first.done():
                first.set_result(None)
            return await life.ended()
        finally:
            self.is_ready = False
            await life.end()
            self.life = None

    def _supervised(self, task: asyncio.Task[None], first: asyncio.Future[NotReady | None]) -> None:
        """No process is started any more: tell the executor, and a ``start`` that still waits."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.is_over = True
            self._report(f"executor {self.name}: it cannot continue: {error!r}")
            self._on_over()
        if not first.done():
            first.set_result(NotReady(f"{self.name}: it was stopped before it was ready"))

    def _tell_restart(self, ending: str) -> None:
        self._report(
            f"executor {self.name}: its process died ({ending}); it is started again; "
            f"open tasks: {self._open_tasks()}"
        )

    def _tell_over(self, deaths: int, ending: str) -> None:
        self._report(
            f"executor {self.name}: its process died {deaths} times in a row, each time within "
            f"{QUICK_S:.0f} s of its start ({ending}); it is not started again, and "
            f"{self._open_tasks()} tasks stay open until the world is run again"
        )
