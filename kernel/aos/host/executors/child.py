"""Effects that run in a worker process, which is started again when it dies (X-50 to X-58)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aos.core.decide.answers import Answer
from aos.core.state.continuation import takes
from aos.host.executors import messages
from aos.host.executors.attempts import Attempts
from aos.host.executors.backlog import Backlog, Where, Work
from aos.host.executors.life import STALL_S, Life, NotReady, Ready
from aos.host.executors.settling import Settling
from aos.host.executors.streaming import Streaming
from aos.host.executors.task import (
    AttemptJournal,
    ExecutorStats,
    Loss,
    Lost,
    Outcome,
    Report,
    Settle,
    Task,
)
from aos.manifest.builtins import STREAM
from aos.manifest.effective import Effective
from aos.values.digests import Hash, hash_text
from aos.worker.failure import AttemptFailure
from aos.worker.wire import Message

QUICK_S: Final = 10.0
"""A process that lived for less died quickly."""

QUICK_DEATHS_MAX: Final = 5
BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 5.0
DRAIN_S: Final = 2.0
"""What running effects have to end in when the node stops."""


@dataclass(frozen=True, slots=True)
class _Desk:
    """The three ways from an executor into the journal."""

    settling: Settling
    attempts: Attempts
    streaming: Streaming


class ChildExecutor:
    """Runs tasks in a process made by ``command``, with ``environment`` or else the node's own.

    The process is started by ``start``; where ``slots`` says what it can do, by the first task. One
    that is silent for ``stall_s`` in the middle of a message is ended and started again.
    """

    def __init__(
        self,
        *,
        label: str,
        command: Sequence[str],
        world: Hash | None,
        report: Report,
        slots: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        self._name = label
        self._command = command
        self._environment = environment
        self._stall_s = stall_s
        self._world = world
        self._report = report
        self._is_lazy = slots is not None
        self._key: bytes | None = None
        self._manifest: Effective | None = None
        self._takers: set[str] = set()
        self._backlog = Backlog()
        self._backlog.slots = slots or {}
        self._acks: list[Hash] = []
        self._life: Life | None = None
        self._is_ready = False
        self._is_stuck = False
        self._is_stopping = False
        self._is_over = False
        self.on_stranded: Callable[[], None] = lambda: None
        self._turn: asyncio.Handle | None = None
        self._wanted = asyncio.Event()
        self._calm = asyncio.Event()
        self._journal: AttemptJournal | None = None
        self._open_desk: _Desk | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def effects(self) -> frozenset[str]:
        return frozenset(self._backlog.slots)

    @property
    def signer(self) -> tuple[str, bytes] | None:
        return None if self._key is None else (self._name, self._key)

    @property
    def _desk(self) -> _Desk:
        assert self._open_desk is not None, "used before start"
        return self._open_desk

    def tell_to(self, journal: AttemptJournal) -> None:
        self._journal = journal

    async def start(self, settle: Settle) -> None:
        """Start the process and wait until it is ready, unless it is one that waits for a task.

        Raises:
            BadUsage: Its functions cannot be loaded, or it ended before it was ready.
        """
        assert self._journal is not None, "started before tell_to"
        loop = asyncio.get_running_loop()
        self._open_desk = _Desk(
            Settling(self._name, settle, self._report),
            Attempts(self._name, self._journal, self._report),
            Streaming(self._name, self._journal, self._report),
        )
        first: asyncio.Future[NotReady | None] = loop.create_future()
        if self._is_lazy:
            first.set_result(None)
        else:
            self._wanted.set()
        self._supervisor = loop.create_task(self._supervise(first))
        self._supervisor.add_done_callback(lambda task: self._supervised(task, first))
        problem = await first
        if problem is not None:
            raise problem

    def use(self, effective: Effective) -> None:
        self._manifest = effective
        self._takers.update(
            name for name, each in effective.workflows.items() if takes(each, STREAM)
        )
        if self._life is not None and self._is_ready:
            self._life.send(_manifest(effective))
        self._plan()

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._backlog.add(task)
        self._wanted.set()
        self._plan()
        if self._is_over:
            self.on_stranded()

    def cancel(self, intents: Sequence[Hash]) -> None:
        for intent in intents:
            running = self._backlog.cancel(intent)
            if running is not None and self._life is not None:
                self._life.send(messages.cancel(running))
        self._plan()

    async def stop(self) -> None:
        """Let running effects end, for a while; then end the process."""
        self._is_stopping = True
        if self._supervisor is None:
            return
        if self._backlog.running:
            self._calm.clear()
            waiting = asyncio.ensure_future(self._calm.wait())
            await asyncio.wait({waiting}, timeout=DRAIN_S)
            waiting.cancel()
        await self._desk.settling.drain(DRAIN_S)
        await self._desk.attempts.drain(0)
        self._send_acks()
        self._supervisor.cancel()
        await asyncio.gather(self._supervisor, return_exceptions=True)

    def stats(self) -> ExecutorStats:
        busy = self._backlog.busy
        desk = self._open_desk
        return ExecutorStats(
            running=busy,
            queued=len(self._backlog) - busy,
            done=0 if desk is None else desk.settling.done,
            dropped=0 if desk is None else desk.streaming.dropped,
        )

    def stranded(self) -> Mapping[Hash, Task]:
        """Tasks that are not run any more: one ended the process, or it is not started again."""
        return self._backlog.tasks() if self._is_over else self._backlog.parked

    # The process

    async def _supervise(self, first: asyncio.Future[NotReady | None]) -> None:
        """One life after another, until it is pointless or the node stops."""
        clock = asyncio.get_running_loop().time
        quick = 0
        await self._wanted.wait()
        while not self._is_stopping:
            begun = clock()
            self._is_stuck = False
            try:
                ending = await self._live(first)
            except NotReady as problem:
                if not first.done():
                    first.set_result(problem)
                    return
                ending = str(problem)
            cause = self._take_back(ending)
            if cause is not None or self._is_stuck:
                quick = 0
            else:
                quick = quick + 1 if clock() - begun < QUICK_S else 1
            if quick >= QUICK_DEATHS_MAX:
                self._is_over = True
                self._tell_over(quick, ending)
                self.on_stranded()
                return
            if not self._is_stuck and not self._is_stopping:
                self._tell_again(ending)
                await asyncio.sleep(min(BACKOFF_S * 2.0 ** max(quick - 1, 0), BACKOFF_S_MAX))

    def _take_back(self, ending: str) -> Work | None:
        """What becomes of the tasks that the process had; the one that is the cause of its end."""
        how = "was ended: it was stuck" if self._is_stuck else f"died ({ending})"
        problem = f"the process that ran it {how}"
        death = self._backlog.take_back(problem, is_death=not self._is_stuck)
        for work in death.lost:
            self._desk.attempts.lose(work.task, work.attempt, problem)
        self._calm_down()
        if death.cause is not None:
            self._tell_parked(death.cause, ending)
            self.on_stranded()
        return death.cause

    def _supervised(self, task: asyncio.Task[None], first: asyncio.Future[NotReady | None]) -> None:
        """Nothing starts the process any more; whoever waits for it is told."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._is_over = True
            self._report(f"executor {self._name}: it cannot go on: {error!r}")
            self.on_stranded()
        if not first.done():
            first.set_result(NotReady(f"{self._name}: it was stopped before it was ready"))

    async def _live(self, first: asyncio.Future[NotReady | None]) -> str:
        """One process from start to end; how it ended."""
        life = Life(
            self._command,
            label=self._name,
            report=self._report,
            on_message=self._receive,
            environment=self._environment,
            stall_s=self._stall_s,
        )
        self._life = life
        try:
            self._get_ready(life, await life.begin(self._world))
            if not first.done():
                first.set_result(None)
            return await life.ended()
        finally:
            self._is_ready = False
            await life.end()
            self._life = None

    def _get_ready(self, life: Life, ready: Ready) -> None:
        if not self._is_lazy:
            self._name, self._key, self._backlog.slots = ready.name, ready.key, ready.slots
            life.label = ready.name
        self._is_ready = True
        if self._manifest is not None:
            life.send(_manifest(self._manifest))
        self._plan()

    def _tell_again(self, ending: str) -> None:
        self._report(
            f"executor {self._name}: its process died ({ending}); it is started again; "
            f"open tasks: {len(self._backlog)}"
        )

    def _tell_over(self, deaths: int, ending: str) -> None:
        self._report(
            f"executor {self._name}: its process died {deaths} times in a row, each time within "
            f"{QUICK_S:.0f} s of its start ({ending}); it is not started again, and "
            f"{len(self._backlog)} tasks stay open until the world is run again"
        )

    def _tell_parked(self, work: Work, ending: str) -> None:
        self._report(
            f"executor {self._name}: {work.task.effect.name} {hash_text(work.task.intent)} was "
            f"running in {work.deaths} deaths of the process, the last time alone ({ending}); it "
            "is not run again and stays open until the world is run again"
        )

    # Tasks out

    def _plan(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Send what may run now. One turn of the loop makes one write of it."""
        self._turn = None
        if not self._is_ready or self._manifest is None or self._life is None:
            return
        self._send_acks()
        if self._is_stopping:
            return
        for work in self._backlog.canceling():
            self._life.send(messages.cancel(work))
        for work in self._backlog.ready():
            if work.where is Where.BEGINNING:
                self._journal_attempt(work)
            else:
                self._send(work)

    def _journal_attempt(self, work: Work) -> None:
        """It goes on in ``_begin``, once the journal has the number or will not take it."""
        assert work.asked is not None
        self._desk.attempts.begin(work.task, work.asked, work.problem, partial(self._begin, work))

    def _begin(self, work: Work, is_granted: bool) -> None:
        was_running = work.where is Where.RUNNING
        is_ready = self._is_ready and self._life is not None
        if self._backlog.answered(work, is_granted=is_granted, is_ready=is_ready):
            if not was_running:
                self._send(work)
            elif self._life is not None:
                self._life.send(messages.begin(work, is_granted=is_granted))
        elif work.where is Where.PARKED:
            self.on_stranded()
        self._calm_down()
        self._plan()

    def _send(self, work: Work) -> None:
        assert self._life is not None
        blobs = self.prepare(work.task)
        if isinstance(blobs, AttemptFailure):
            self._end_unsent(work, blobs)
        else:
            self._life.send(messages.run(work, blobs, has_taker=self._has_taker(work.task)))

    def _has_taker(self, task: Task) -> bool:
        """Whether the workflow that asked takes stream frames, in a manifest that was in force
        here. The core refuses what a pinned instance does not take."""
        return task.workflow in self._takers

    def _send_acks(self) -> None:
        if self._acks and self._life is not None:
            self._life.send({"op": "ack", "intents": list(self._acks)})
            self._acks.clear()

    def prepare(self, task: Task) -> Sequence[bytes] | AttemptFailure:  # noqa: ARG002  # others use it
        """The blobs that go with a task, or why it cannot run. For executors that do not sign."""
        return ()

    def finish(self, task: Task, outcome: Outcome) -> Outcome:  # noqa: ARG002  # others use it
        """What becomes of an outcome before it is settled. For executors that do not sign."""
        return outcome

    def _end_unsent(self, work: Work, failure: AttemptFailure) -> None:
        now = max(work.task.opened_ns, time.time_ns())
        self._end(
            Outcome(
                intent=work.task.intent,
                effect=work.task.effect.name,
                attempt=work.attempt,
                status="error",
                payload=failure.payload(),
                started_ns=now,
                finished_ns=now,
            )
        )

    # Results in

    def _receive(self, message: Message) -> None:
        op, work = message["op"], None
        if op in ("done", "progress", "attempt"):
            work = self._backlog.at_work(messages.intent(message))
        if op == "done" and work is not None:  # else it is settled already, or was never sent
            outcome = messages.outcome(work.task, message, name=self._name, key=self._key)
            outcome = self.finish(work.task, outcome)
            self._count_dropped(work.task, messages.whole(message, "dropped"))
            self._end(outcome)
        elif op == "progress" and work is not None:
            frame = messages.frame(work.task, message, name=self._name, key=self._key)
            self._desk.streaming.tell(frame)
        elif op == "attempt" and work is not None:
            self._ask(work, messages.whole(message, "attempt"), str(message.get("problem")))
        elif op == "stuck" and self._life is not None:
            self._is_stuck = True
            self._report(
                f"executor {self._name}: {message.get('reason')}; its process is ended and started "
                "again"
            )
            self._life.kill()

    def _ask(self, work: Work, attempt: int, problem: str) -> None:
        if self._backlog.ask(work, attempt, problem):
            self._journal_attempt(work)
        elif self._life is not None:
            self._life.send(messages.begin(work, is_granted=False))

    def _count_dropped(self, task: Task, count: int) -> None:
        """Stream frames that did not leave the process."""
        why = Lost(Loss.TOO_FAST, "it came faster than limits.world.stream_rate lets through")
        if not self._has_taker(task):
            why = Lost(Loss.NO_TAKER, f"{task.workflow} has no arm for {STREAM}")
        self._desk.streaming.drop(task.effect.name, count, why)

    def _end(self, outcome: Outcome) -> None:
        self._backlog.end(outcome.intent)
        self._desk.settling.begin(outcome, self._settled)
        self._calm_down()
        self._plan()

    def _calm_down(self) -> None:
        if not self._backlog.running:
            self._calm.set()

    def _settled(self, outcome: Outcome, answer: Answer | None) -> None:
        work = self._backlog.forget(outcome.intent)
        if answer is None:
            return  # the process keeps its result, and gives it when the task is published again
        if work is None or not work.is_canceled:
            self._desk.settling.tell(outcome, answer)
        self._acks.append(outcome.intent)
        self._plan()


def _manifest(effective: Effective) -> Message:
    return {"op": "manifest", "document": effective.document}
