"""Executors whose effects are carried out on the event loop, at once: the store's blobs, times of a
calendar (X-30, X-36)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from aos.core.decide.answers import Answer
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import ExecutorStats, Report, Task, WorkJournal, report_to_stderr
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.values.digests import Hash
from aos.worker.failure import CANCELED, AttemptFailure
from aos.worker.outcome import Outcome

DRAIN_S: Final = 2.0
BURST: Final = 16
"""Tasks that are done before the loop does something else."""


class TaskEnd(NamedTuple):
    """How a task ended: the status and payload of its receipt, and blobs to store with it."""

    status: str
    payload: bytes
    blobs: Mapping[Hash, bytes] = {}


class AtOnceExecutor:
    """A ``TaskExecutor`` that works on the event loop, ``BURST`` tasks at a time.

    ``carry_out`` returns how a task ends. ``clock`` is wall time in ns.
    """

    signer: Final = None

    def __init__(
        self,
        name: str,
        effects: frozenset[str],
        *,
        clock: Callable[[], int] = now_ns,
        report: Report = report_to_stderr,
    ) -> None:
        self.name = name
        self.effects = effects
        self._clock = clock
        self._report = report
        self._queue: deque[Task] = deque()
        self._canceled_by_intent: dict[Hash, bool] = {}  # intent -> it was canceled
        self._outbox: JournalOutbox | None = None
        self._turn: asyncio.Handle | None = None

    def carry_out(self, task: Task) -> TaskEnd:
        """Do what a task asks for."""
        raise NotImplementedError

    async def start(self, journal: WorkJournal) -> None:
        self._outbox = JournalOutbox(self.name, journal, self._report)

    def use(self, effective: Effective) -> None:
        pass

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.intent not in self._canceled_by_intent:
                self._canceled_by_intent[task.intent] = False
                self._queue.append(task)
        self._plan()

    def cancel(self, intents: Sequence[Hash]) -> None:
        """Mark tasks as canceled. One that waits settles as canceled at its turn; for one that
        has run, only the reports of its outcome are left out."""
        for intent in intents:
            if intent in self._canceled_by_intent:
                self._canceled_by_intent[intent] = True

    async def stop(self) -> None:
        """Run no more, and wait for pending outcomes."""
        if self._turn is not None:
            self._turn.cancel()
        self._queue.clear()
        if self._outbox is not None:
            await self._outbox.drain(DRAIN_S)

    def stats(self) -> ExecutorStats:
        settling = 0 if self._outbox is None else len(self._outbox)
        settled = 0 if self._outbox is None else self._outbox.settled
        return ExecutorStats(running=settling, queued=len(self._queue), settled=settled)

    def _plan(self) -> None:
        if self._turn is None and self._queue:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        for _ in range(min(BURST, len(self._queue))):
            self._run(self._queue.popleft())
        self._plan()

    def _run(self, task: Task) -> None:
        assert self._outbox is not None, "published before start"
        started = self._clock()
        if self._canceled_by_intent[task.intent]:
            task_end = TaskEnd(CANCELED, _canceled().payload())
        else:
            task_end = self.carry_out(task)
        outcome = Outcome(
            intent=task.intent,
            effect=task.effect.name,
            attempt=task.attempt,
            status=task_end.status,
            payload=task_end.payload,
            started_ns=started,
            finished_ns=max(started, self._clock()),
            blobs=task_end.blobs,
        )
        self._outbox.settle(outcome, self._ended)

    def _ended(self, outcome: Outcome, answer: Answer | None) -> None:
        is_canceled = self._canceled_by_intent.pop(outcome.intent)
        self.settled(outcome.intent)
        if answer is not None and not is_canceled and self._outbox is not None:
            self._outbox.tell_answer(outcome, answer)

    def settled(self, intent: Hash) -> None:
        """An outcome has been answered, or was given up."""


def _canceled() -> AttemptFailure:
    return AttemptFailure(code=CANCELED, message="canceled before it ran", retryable=False)
