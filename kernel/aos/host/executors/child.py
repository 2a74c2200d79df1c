"""Run effects in a worker process: tasks go out, outcomes come back (X-50 to X-58).

Three objects do the work: the ``Backlog`` decides which task runs next, the ``Supervisor`` keeps
the process running, and the ``JournalOutbox`` carries results into the journal.
The executor connects them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from aos.core.decide.answers import Answer
from aos.core.state.continuation import takes
from aos.host.executors import messages
from aos.host.executors.backlog import NO_LIMITS, Backlog, Work, WorkStage
from aos.host.executors.blob import BLOB_MISSING
from aos.host.executors.enclosures import NOTHING, Enclosed
from aos.host.executors.life import STALL_S, Ready
from aos.host.executors.limiter import Limit
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.supervisor import Supervisor
from aos.host.executors.task import (
    LEASE_LOOK_S,
    ExecutorStats,
    Halted,
    Loss,
    Lost,
    Report,
    Task,
    TaskNow,
    WorkJournal,
)
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.manifest.names import STREAM
from aos.values.digests import Hash, hash_text
from aos.worker.causes import Causes
from aos.worker.failure import AttemptFailure
from aos.worker.outcome import Outcome, StreamFrame
from aos.worker.policy import attempt_ns
from aos.worker.wire import Message, WireProblem

DIED: Final = "executor_died"
"""The code of a task that was parked because its process died while it ran (X-57)."""

DRAIN_S: Final = 2.0
"""Seconds that running effects have to end in when the node stops."""


class ChildExecutor:
    """A ``TaskExecutor`` that runs tasks in a process that ``command`` starts, in ``environment``
    (default: the node's).

    ``start`` starts the process. With ``slots`` (calls of each effect that may run at the same
    time), which are otherwise reported by the process, the first task starts it. A process that is
    silent for ``stall_s`` seconds in the middle of a message is ended and started again.
    """

    journals_attempts: Final = True

    def __init__(
        self,
        *,
        label: str,
        command: Sequence[str],
        world: Hash | None,
        report: Report,
        slots: Mapping[str, int] | None = None,
        limits: Mapping[str, Limit] = NO_LIMITS,
        environment: Mapping[str, str] | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        self._report = report
        self._is_lazy = slots is not None
        self._key: bytes | None = None
        self._manifest: Effective | None = None
        self._takers: set[str] = set()
        self._backlog = Backlog(limits)
        self._waking: asyncio.TimerHandle | None = None
        self._backlog.slots = slots or {}
        self._timeouts_ns: Mapping[str, int] = {}
        self._acks: list[Hash] = []
        self._causes = Causes()
        self.on_stranded: Callable[[], None] = lambda: None
        self.holds_lease: Callable[[], bool] = lambda: True
        self._turn: asyncio.Handle | None = None
        self._calm = asyncio.Event()
        self._open_outbox: JournalOutbox | None = None
        self._process = Supervisor(
            label=label,
            command=command,
            world=world,
            report=report,
            is_lazy=self._is_lazy,
            on_message=self._receive,
            on_ready=self._get_ready,
            on_end=self._take_back,
            on_over=self._strand,
            open_tasks=lambda: len(self._backlog),
            environment=environment,
            stall_s=stall_s,
        )

    @property
    def name(self) -> str:
        """Its name; the process reports the final one."""
        return self._process.name

    @property
    def effects(self) -> frozenset[str]:
        """The effects it runs; complete once ``start`` has returned."""
        return frozenset(self._backlog.slots)

    @property
    def signer(self) -> tuple[str, bytes] | None:
        """The name and public key that sign its outcomes; None if the host signs them."""
        return None if self._key is None else (self.name, self._key)

    @property
    def _outbox(self) -> JournalOutbox:
        assert self._open_outbox is not None, "used before start"
        return self._open_outbox

    async def start(self, journal: WorkJournal) -> None:
        """Start the process and wait until it is ready, unless it waits for the first task.

        Raises:
            BadUsage: It cannot load its functions, or it ended before it was ready.
        """
        self._open_outbox = JournalOutbox(self.name, journal, self._report)
        await self._process.start()

    def use(self, effective: Effective) -> None:
        """Put a manifest in force: tell the process, and run tasks under it."""
        self._manifest = effective
        self._takers.update(
            name for name, workflow in effective.workflows.items() if takes(workflow, STREAM)
        )
        if self._process.is_ready:
            self._process.send(_manifest(effective))
        self._plan()

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._backlog.add(task)
        self._process.want()
        self._plan()
        if self._process.is_over:
            self.on_stranded()

    def cancel(self, intents: Sequence[Hash]) -> None:
        """Cancel tasks; the process is told of those that it runs."""
        for intent in intents:
            running = self._backlog.cancel(intent)
            if running is not None:
                self._process.send(messages.cancel(running))
        self._plan()

    async def stop(self) -> None:
        """Let running effects end, for up to ``DRAIN_S``; then end the process."""
        self._process.is_stopping = True
        if not self._process.has_started:
            return
        if self._backlog.running:
            self._calm.clear()
            waiting = asyncio.ensure_future(self._calm.wait())
            await asyncio.wait({waiting}, timeout=DRAIN_S)
            waiting.cancel()
        await self._outbox.drain(DRAIN_S)
        self._send_acks()
        await self._process.stop()

    def stats(self) -> ExecutorStats:
        busy = self._backlog.busy
        outbox = self._open_outbox
        return ExecutorStats(
            running=busy,
            queued=len(self._backlog) - busy,
            settled=0 if outbox is None else outbox.settled,
            dropped=0 if outbox is None else outbox.dropped,
        )

    def now(self) -> Iterator[TaskNow]:
        """Its tasks without an outcome; without those whose attempt the journal has refused."""
        at_ns = now_ns()
        for work in () if self._process.is_over else self._backlog.works():
            phase = _phase(work, at_ns)
            if phase is not None:
                since_ns = work.task.opened_ns if phase == "queued" else work.since_ns
                effect = work.task.effect
                yield TaskNow(
                    task=work.task,
                    phase=phase,
                    attempt=work.attempt,
                    since_ns=since_ns,
                    limit_ns=attempt_ns(effect, self._timeouts_ns.get(effect.name)),
                )

    def stranded(self) -> Mapping[Hash, Task]:
        """Tasks that are not run any more: parked ones, or all if the process is given up."""
        return self._backlog.tasks() if self._process.is_over else self._backlog.parked

    def halted(self) -> Mapping[Hash, Halted]:
        """Tasks that are held or parked, and why."""
        return self._backlog.halted()

    def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """Queue stranded tasks again, unless the process was given up (X-16, X-58)."""
        if self._process.is_over:
            return []
        queued = [intent for intent in intents if self._backlog.retry(intent)]
        self._process.want()
        self._plan()
        return queued

    # The process

    def _get_ready(self, ready: Ready) -> None:
        self._timeouts_ns = ready.timeouts_ns
        if not self._is_lazy:
            self._key, self._backlog.slots = ready.key, ready.slots
        if self._manifest is not None:
            self._process.send(_manifest(self._manifest))
        self._plan()

    def _strand(self) -> None:
        self.on_stranded()  # the pool sets it later

    def _take_back(self, ending: str) -> bool:
        """Queue again what the process had, except tasks that may run only once: those are lost.

        Returns whether one task was found to cause the end. It is parked (X-57)."""
        is_stuck = self._process.is_stuck
        ending_text = "was ended: it was stuck" if is_stuck else f"died ({ending})"
        problem = f"the process that ran it {ending_text}"
        death = self._backlog.take_back(problem, is_death=not is_stuck)
        for work in death.lost:
            self._outbox.lose(work.task, work.attempt, problem)
        self._calm_down()
        if death.cause is not None:
            death.cause.halted = Halted("parked", DIED, problem)
            self._tell_parked(death.cause, ending)
            self._journal_halt(death.cause, death.cause.halted)
        return death.cause is not None

    def _tell_parked(self, work: Work, ending: str) -> None:
        self._report(
            f"executor {self.name}: {work.task.effect.name} {hash_text(work.task.intent)} was "
            f"running in {work.deaths} deaths of the process, the last time alone ({ending}); it "
            "is parked: it stays open and runs again when the world is run again, or with "
            f"aos effects retry {work.task.intent.hex()[:8]}"
        )

    # Tasks out

    def _plan(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Send everything that may run now. It is one write for each turn of the loop."""
        self._turn = None
        if not self._process.is_ready or self._manifest is None:
            return
        self._send_acks()
        if self._process.is_stopping:
            return
        for work in self._backlog.canceling():
            self._process.send(messages.cancel(work))
        if not self.holds_lease():
            self._wake_in(LEASE_LOOK_S)
            return
        for work in self._backlog.ready(time.monotonic_ns()):
            halted = work.halted
            if halted is not None and self.still_lacks(work.task, halted):
                self._tell_halted(work, halted)
                work.since_ns = now_ns()
                self._backlog.halt(work, halted)  # the journal has that already
                self.on_stranded()
            elif work.stage is WorkStage.BEGINNING:
                self._journal_attempt(work)
            else:
                self._send(work)
        self._wake_when_due()

    def _wake_when_due(self) -> None:
        """Dispatch again when a rate lets the next task begin."""
        due_ns = self._backlog.due_ns
        self._wake_in(None if due_ns is None else max(0, due_ns - time.monotonic_ns()) / 1e9)

    def _wake_in(self, seconds: float | None) -> None:
        """Dispatch again after so many seconds; None for never."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if seconds is not None:
            self._waking = asyncio.get_running_loop().call_later(seconds, self._plan)

    def _journal_attempt(self, work: Work) -> None:
        """Ask for an attempt (X-12). ``_begin`` continues once the journal has it or refuses it."""
        assert work.pending_attempt is not None
        self._outbox.begin(
            work.task, work.pending_attempt, work.problem, partial(self._begin, work)
        )

    def _begin(self, work: Work, is_granted: bool) -> None:
        was_running = work.stage is WorkStage.RUNNING
        is_ready = self._process.is_ready
        if self._backlog.answered(work, is_granted=is_granted, is_ready=is_ready):
            if not was_running:
                self._send(work)
            else:
                self._process.send(messages.begin(work, is_granted=is_granted))
        elif work.stage is WorkStage.PARKED:
            self.on_stranded()
        self._calm_down()
        self._plan()

    def _send(self, work: Work) -> None:
        enclosed = self.prepare(work.task)
        if isinstance(enclosed, AttemptFailure) and enclosed.end == "hold":
            self._halt(work, Halted("held", enclosed.code, enclosed.message))
        elif isinstance(enclosed, AttemptFailure):
            self._end_unsent(work, enclosed)
        else:
            work.since_ns = now_ns()
            self._process.send(messages.run(work, enclosed, has_taker=self._has_taker(work.task)))

    def _has_taker(self, task: Task) -> bool:
        """Whether the workflow takes stream frames in any manifest that was in force here. The core
        refuses frames that a pinned instance does not take."""
        return task.workflow in self._takers

    def _send_acks(self) -> None:
        if self._acks and self._process.life is not None:
            self._process.send({"op": "ack", "intents": list(self._acks)})
            self._acks.clear()

    def prepare(self, task: Task) -> Enclosed | AttemptFailure:  # noqa: ARG002  # others use it
        """Return the blobs and secrets to send with a task, or why it cannot run."""
        return NOTHING

    def read_blob(self, hash: str) -> bytes | AttemptFailure:
        """Read a blob for a function that runs (X-79a), or say why that is not possible."""
        text = f"executor {self.name} has no store: {hash:.80} cannot be read"
        return AttemptFailure(code=BLOB_MISSING, message=text, retryable=False)

    def still_lacks(self, task: Task, halted: Halted) -> bool:  # noqa: ARG002  # others use it
        """Whether a task that was held when it was last published would be held again for the same
        reason. If so, nothing is journaled (X-15)."""
        return False

    def finish(self, task: Task, outcome: Outcome) -> Outcome:  # noqa: ARG002  # others use it
        """Change an outcome before it is settled. Only if the host signs."""
        return outcome

    def _end_unsent(self, work: Work, failure: AttemptFailure) -> None:
        outcome = Outcome.failed(
            failure,
            intent=work.task.intent,
            effect=work.task.effect.name,
            attempt=work.attempt,
            started_ns=max(work.task.opened_ns, now_ns()),
        )
        self._end(self.finish(work.task, outcome))

    # Results in

    def _receive(self, message: Message) -> None:
        op, work = message["op"], None
        if op in ("attempt", "halt"):
            work = self._backlog.at_work(messages.intent(message))
        if op == "done":
            outcome = messages.outcome(message, name=self.name, key=self._key)
            work = self._work_of(outcome)
            if work is not None:
                self._count_dropped(work.task, messages.number_or_0(message, "dropped"))
                self._end(self.finish(work.task, outcome))
        elif op == "progress":
            frame = messages.frame(message, name=self.name, key=self._key)
            if self._work_of(frame) is not None:
                self._outbox.tell(frame)
        elif op == "attempt" and work is not None:
            self._ask(work, messages.whole_number(message, "attempt"), str(message.get("problem")))
            work.since_ns = now_ns() + messages.number_or_0(message, "pause_ns")
        elif op == "halt" and work is not None:
            self._count_dropped(work.task, messages.number_or_0(message, "dropped"))
            self._halt(work, messages.halted(message))
        elif op == "read":
            self._process.send(messages.blob(message, self.read_blob(messages.blob_name(message))))
        elif op == "stuck":
            self._process.end_stuck(message.get("reason"))

    def _work_of(self, statement: Outcome | StreamFrame) -> Work | None:
        """The task of a statement; None if it is settled already, or was never sent.

        Raises:
            WireProblem: The statement is about another effect.
        """
        work = self._backlog.at_work(statement.intent)
        if work is not None and statement.effect != work.task.effect.name:
            effect = work.task.effect.name
            raise WireProblem(f"it is about {statement.effect:.80}: expected {effect}")
        return work

    def _halt(self, work: Work, halted: Halted) -> None:
        """Keep a task open that does not run now: journal it, report it, count it (X-15, X-17)."""
        self._backlog.halt(work, halted)
        if not work.is_canceled:
            self._tell_halted(work, halted)
            self._journal_halt(work, halted)
        self._calm_down()
        self._plan()

    def _journal_halt(self, work: Work, halted: Halted) -> None:
        work.since_ns = now_ns()
        self._outbox.halt(work.task, work.begun, halted, self._strand)
        self.on_stranded()

    def _tell_halted(self, work: Work, halted: Halted) -> None:
        """Report a held or parked task: each cause once, then only its count (X-18)."""
        name, intent = work.task.effect.name, work.task.intent
        is_held = halted.phase == "held"
        count = self._causes.count(
            (name, halted.phase, halted.code, halted.problem if is_held else None)
        )
        if count is None:
            return
        if count > 1:
            self._report(
                f"executor {self.name}: {name}: {count:,} {halted.phase}: {halted.problem}"
            )
            return
        if is_held:
            then = "it stays open, and runs when the world runs with what is missing"
        elif work.task.is_once:
            then = (
                "it stays open: it has run and may run only once; find out what it did, then: "
                f"aos effects settle {intent.hex()[:8]} --ok JSON | --error CODE MESSAGE"
            )
        else:
            then = (
                f"it stays open after attempt {work.begun}, and runs again with aos effects retry "
                "or when the world is run again"
            )
        self._report(
            f"executor {self.name}: {name} {hash_text(intent)} is {halted.phase}: {halted.code}: "
            f"{halted.problem} ({then})"
        )

    def _ask(self, work: Work, attempt: int, problem: str) -> None:
        if self._backlog.ask(work, attempt, problem):
            self._journal_attempt(work)
        else:
            self._process.send(messages.begin(work, is_granted=False))

    def _count_dropped(self, task: Task, count: int) -> None:
        """Count stream frames that the process dropped before it sent them."""
        if not count:
            return
        lost = Lost(Loss.TOO_FAST, "it came faster than limits.world.stream_rate lets through")
        if not self._has_taker(task):
            lost = Lost(Loss.NO_TAKER, f"{task.workflow} has no arm for {STREAM}")
        self._outbox.drop(task.effect.name, count, lost)

    def _end(self, outcome: Outcome) -> None:
        self._backlog.end(outcome.intent)
        self._outbox.settle(outcome, self._settled)
        self._calm_down()
        self._plan()

    def _calm_down(self) -> None:
        if not self._backlog.running:
            self._calm.set()

    def _settled(self, outcome: Outcome, answer: Answer | None) -> None:
        work = self._backlog.forget(outcome.intent)
        if answer is None:
            return  # the process keeps the result, and sends it when the task is published again
        if work is None or not work.is_canceled:
            self._outbox.tell_answer(outcome, answer)
        self._acks.append(outcome.intent)
        self._plan()


def _phase(work: Work, at_ns: int) -> str | None:
    """The phase of a task for ``TaskNow``; None if it has been given up."""
    if work.stage is WorkStage.PARKED:
        return None if work.halted is None else work.halted.phase
    if work.stage is not WorkStage.RUNNING:
        return "queued"
    return "backoff" if work.since_ns > at_ns else "running"


def _manifest(effective: Effective) -> Message:
    return {"op": "manifest", "document": effective.document}
