"""``bench/noop@1``: an executor in the loop's own process that answers at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import cbor2

from aos.core.decide.answers import Answer, Refusal
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import ExecutorStats, Task, WorkJournal, report_to_stderr
from aos.manifest.effective import Effective
from aos.values.digests import Hash
from aos.worker.outcome import Outcome

DRAIN_S: Final = 2.0


class NoopExecutor:
    """Unsigned outcomes: the host signs each in the name of ``node``."""

    name: Final = "noop"
    effects: Final = frozenset({"bench/noop@1"})
    signer: Final = None

    def __init__(self) -> None:
        self._outbox: JournalOutbox | None = None

    async def start(self, journal: WorkJournal) -> None:
        self._outbox = JournalOutbox(self.name, journal, report_to_stderr)

    def use(self, effective: Effective) -> None:
        pass

    def publish(self, tasks: Sequence[Task]) -> None:
        assert self._outbox is not None, "published before start"
        for task in tasks:
            started_ns = time.time_ns()
            step = cbor2.loads(task.params)["step"]
            outcome = Outcome(
                intent=task.intent,
                effect=task.effect.name,
                attempt=task.attempt,
                status="ok",
                payload=cbor2.dumps({"step": step}),
                started_ns=started_ns,
                finished_ns=time.time_ns(),
            )
            self._outbox.settle(outcome, self._ended)

    def _ended(self, outcome: Outcome, answer: Answer | None) -> None:
        if self._outbox is not None and isinstance(answer, Refusal):
            self._outbox.refused(outcome, answer)

    def cancel(self, intents: Sequence[Hash]) -> None:
        """An answer is on its way from the moment of publishing: there is nothing to cancel."""

    async def stop(self) -> None:
        if self._outbox is not None:
            await self._outbox.drain(DRAIN_S)

    def stats(self) -> ExecutorStats:
        outbox = self._outbox
        return ExecutorStats(
            running=0 if outbox is None else len(outbox),
            queued=0,
            settled=0 if outbox is None else outbox.settled,
        )
