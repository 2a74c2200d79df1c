"""Run ``sys/timer.set@1``: fire when the wall clock reaches the deadline (X-20 to X-24).

One heap holds all timers, and one timer of the event loop waits for the first of them. The loop's
clock stops while the machine sleeps and does not follow changes of the wall clock, so the executor
reads the wall clock at least every ``RECHECK_S`` seconds.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.host.executors.desk import Desk
from aos.host.executors.task import ExecutorStats, Report, Task, WorkJournal, report_to_stderr
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.manifest.names import TIMER
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash
from aos.worker.failure import CANCELED, AttemptFailure
from aos.worker.outcome import Outcome

RECHECK_S: Final = 1.0
"""Seconds after which the wall clock is read again at the latest (X-21)."""

NS_PER_S: Final = 1_000_000_000
BURST: Final = 256
"""Timers that fire before the loop does something else."""
DRAIN_S: Final = 2.0
SETTLING_MAX: Final = 2048
"""Fired timers that may wait for the journal at a time (X-23)."""


class TimerExecutor:
    """The ``TaskExecutor`` of timers. ``clock`` is the wall clock in ns.

    Nothing of it is on the disk: each start sets the timers of all open tasks again (X-23).
    """

    name: Final = "timer"
    effects: Final = frozenset({TIMER})
    signer: Final = None

    def __init__(
        self, *, clock: Callable[[], int] = now_ns, report: Report = report_to_stderr
    ) -> None:
        self._clock = clock
        self._report = report
        self._armed: dict[Hash, tuple[Task, str | None]] = {}
        self._firing: dict[Hash, bool] = {}  # intent -> it was canceled
        self._heap: list[tuple[int, int, Hash]] = []
        self._order = itertools.count()
        self._desk: Desk | None = None
        self._alarm: asyncio.Handle | None = None
        self._is_stopping = False

    async def start(self, journal: WorkJournal) -> None:
        self._desk = Desk(self.name, journal, self._report)

    def use(self, effective: Effective) -> None:
        pass

    def publish(self, tasks: Sequence[Task]) -> None:
        """Set a timer for each task."""
        for task in tasks:
            if task.intent in self._armed or task.intent in self._firing:
                continue
            params: Any = decode_record(task.params)
            self._armed[task.intent] = (task, params["key"])
            self._push(params["deliver_at_ns"], task.intent)
        self._arm()

    def cancel(self, intents: Sequence[Hash]) -> None:
        """End timers as canceled. One that has fired is settled as it was, if the journal takes it
        (X-24)."""
        for intent in intents:
            armed = self._armed.pop(intent, None)
            if intent in self._firing:
                self._firing[intent] = True
            if armed is not None:
                failure = AttemptFailure(
                    code=CANCELED, message="the timer was canceled", retryable=False
                )
                self._settle(armed[0], CANCELED, failure.payload(), self._clock(), armed[1])

    async def stop(self) -> None:
        """Fire no more, and wait for pending outcomes."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_stopping = True
        if self._desk is not None:
            await self._desk.drain(DRAIN_S)

    def stats(self) -> ExecutorStats:
        settled = 0 if self._desk is None else self._desk.settled
        return ExecutorStats(
            running=len(self._armed) + len(self._firing), queued=0, settled=settled
        )

    def ahead(self) -> AbstractSet[Hash]:
        """The timers, if none of them is due."""
        # With a task that is due, none counts as ahead: the caller asks again once it is settled.
        due_ns = self.next_ns()
        is_due = due_ns is not None and due_ns <= self._clock()
        return frozenset() if is_due else self._armed.keys()

    def next_ns(self) -> int | None:
        """The time at which the first timer fires, in ns since 1970; None without timers."""
        while self._heap and self._heap[0][2] not in self._armed:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _push(self, due_ns: int, intent: Hash) -> None:
        heapq.heappush(self._heap, (due_ns, next(self._order), intent))

    def _arm(self) -> None:
        """Set the one alarm for the first timer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._is_stopping:
            return
        # Canceled timers stay in the heap until their time, unless they are most of it.
        if len(self._heap) > 2 * len(self._armed) + SETTLING_MAX:
            self._heap = [entry for entry in self._heap if entry[2] in self._armed]
            heapq.heapify(self._heap)
        if self._heap and len(self._firing) < SETTLING_MAX:
            wait_s = (self._heap[0][0] - self._clock()) / NS_PER_S
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(min(max(wait_s, 0.0), RECHECK_S), self._ring)

    def _ring(self) -> None:
        """Fire the timers whose time has come by the wall clock, never earlier (X-20)."""
        self._alarm = None
        for _ in range(BURST):
            if not self._heap or len(self._firing) >= SETTLING_MAX:
                break
            now = self._clock()
            if self._heap[0][0] > now:
                break
            _, _, intent = heapq.heappop(self._heap)
            armed = self._armed.pop(intent, None)
            if armed is not None:
                task, key = armed
                payload = encode({"delivered_at_ns": now, "key": key})
                self._settle(task, "ok", payload, now, key)
        self._arm()

    def _settle(self, task: Task, status: str, payload: bytes, now: int, key: str | None) -> None:
        assert self._desk is not None, "published before start"
        self._firing[task.intent] = status == CANCELED
        outcome = Outcome(
            intent=task.intent,
            effect=TIMER,
            attempt=task.attempt,
            status=status,
            payload=payload,
            started_ns=task.opened_ns,
            finished_ns=max(task.opened_ns, now),
        )

        def on_end(outcome: Outcome, answer: Answer | None) -> None:
            is_canceled = self._firing.pop(task.intent)
            if answer is not None and not is_canceled:
                self._answered(task, key, outcome, answer)
            self._arm()

        self._desk.settle(outcome, on_end)

    def _answered(self, task: Task, key: str | None, outcome: Outcome, answer: Answer) -> None:
        assert self._desk is not None, "answered before start"
        match answer:
            case Refusal(rule=Rule.TIMER_IS_NOT_DUE):
                # The wall clock was set back after we had read it.
                self._armed[task.intent] = (task, key)
                self._push(self._clock() + NS_PER_S, task.intent)
            case Admitted() | Duplicate() | Refusal():
                self._desk.tell_answer(outcome, answer)
            case _:
                assert_never(answer)
