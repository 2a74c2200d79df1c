"""Run ``sys/timer.set@1``: fire when the wall clock reaches the deadline (X-20 to X-24).

One heap holds all timers, and one timer of the event loop waits for the first of them. The loop's
clock stops while the machine sleeps and does not follow changes of the wall clock, so the executor
reads the wall clock at least every ``RECHECK_S`` seconds.

A world may sleep on a million timers, so each is one row of bytes, and its task is not kept:

    due ns (8 bytes), record that opened it (8), intent (32), opened ns (8), attempt (8), key

All integers are big-endian, so the order of the rows is that in which the timers fire. The key is
in UTF-8, after a byte 1; without a key, the row ends before that byte.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Self, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.host.executors.outbox import JournalOutbox
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

_ROW: Final = Struct(">QQ32sQQ")
_TIME_MAX: Final = 2**64 - 1
"""The last due time of a row, in the year 2554; the journal refuses a later one as not due."""
_HAS_KEY: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class _Timer:
    """A timer as it is while it fires or is set; between the two it is only its row."""

    intent: Hash
    opened_seq: int
    opened_ns: int
    attempt: int
    key: str | None

    @classmethod
    def of(cls, row: bytes) -> Self:
        _, opened_seq, intent, opened_ns, attempt = _ROW.unpack_from(row)
        key = row[_ROW.size + 1 :].decode() if len(row) > _ROW.size else None
        return cls(Hash(intent), opened_seq, opened_ns, attempt, key)

    def row(self, due_ns: int) -> bytes:
        head = _ROW.pack(
            min(due_ns, _TIME_MAX), self.opened_seq, self.intent, self.opened_ns, self.attempt
        )
        return head if self.key is None else head + _HAS_KEY + self.key.encode()


def _due_ns(row: bytes) -> int:
    return int.from_bytes(row[:8], "big")


def _intent_of(row: bytes) -> Hash:
    return Hash(row[16:48])


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
        self._armed: dict[Hash, bytes] = {}  # intent -> its row in the heap
        self._firing: dict[Hash, bool] = {}  # intent -> it was canceled
        self._heap: list[bytes] = []
        self._outbox: JournalOutbox | None = None
        self._alarm: asyncio.Handle | None = None
        self._is_stopping = False

    async def start(self, journal: WorkJournal) -> None:
        self._outbox = JournalOutbox(self.name, journal, self._report)

    def use(self, effective: Effective) -> None:
        pass

    def publish(self, tasks: Sequence[Task]) -> None:
        """Set a timer for each task."""
        for task in tasks:
            if task.intent in self._armed or task.intent in self._firing:
                continue
            params: Any = decode_record(task.params)
            self._set(
                _Timer(task.intent, task.opened_seq, task.opened_ns, task.attempt, params["key"]),
                params["deliver_at_ns"],
            )
        self._arm()

    def cancel(self, intents: Sequence[Hash]) -> None:
        """End timers as canceled. One that has fired is settled as it was, if the journal takes it
        (X-24)."""
        for intent in intents:
            row = self._armed.pop(intent, None)
            if intent in self._firing:
                self._firing[intent] = True
            if row is not None:
                failure = AttemptFailure(
                    code=CANCELED, message="the timer was canceled", retryable=False
                )
                self._settle(_Timer.of(row), CANCELED, failure.payload(), self._clock())

    async def stop(self) -> None:
        """Fire no more, and wait for pending outcomes."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_stopping = True
        if self._outbox is not None:
            await self._outbox.drain(DRAIN_S)

    def stats(self) -> ExecutorStats:
        settled = 0 if self._outbox is None else self._outbox.settled
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
        while self._heap and not self._is_armed(self._heap[0]):
            heapq.heappop(self._heap)
        return _due_ns(self._heap[0]) if self._heap else None

    def _set(self, timer: _Timer, due_ns: int) -> None:
        row = self._armed[timer.intent] = timer.row(due_ns)
        heapq.heappush(self._heap, row)

    def _is_armed(self, row: bytes) -> bool:
        """Whether the timer of a row of the heap was not canceled."""
        return self._armed.get(_intent_of(row)) == row

    def _arm(self) -> None:
        """Set the one alarm for the first timer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._is_stopping:
            return
        # Canceled timers stay in the heap until their time, unless they are most of it.
        if len(self._heap) > 2 * len(self._armed) + SETTLING_MAX:
            self._heap = [row for row in self._heap if self._is_armed(row)]
            heapq.heapify(self._heap)
        if self._heap and len(self._firing) < SETTLING_MAX:
            wait_s = (_due_ns(self._heap[0]) - self._clock()) / NS_PER_S
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(min(max(wait_s, 0.0), RECHECK_S), self._ring)

    def _ring(self) -> None:
        """Fire the timers whose time has come by the wall clock, never earlier (X-20)."""
        self._alarm = None
        for _ in range(BURST):
            if not self._heap or len(self._firing) >= SETTLING_MAX:
                break
            now = self._clock()
            if _due_ns(self._heap[0]) > now:
                break
            row = heapq.heappop(self._heap)
            if self._is_armed(row):
                timer = _Timer.of(row)
                del self._armed[timer.intent]
                payload = encode({"delivered_at_ns": now, "key": timer.key})
                self._settle(timer, "ok", payload, now)
        self._arm()

    def _settle(self, timer: _Timer, status: str, payload: bytes, now: int) -> None:
        assert self._outbox is not None, "published before start"
        self._firing[timer.intent] = status == CANCELED
        outcome = Outcome(
            intent=timer.intent,
            effect=TIMER,
            attempt=timer.attempt,
            status=status,
            payload=payload,
            started_ns=timer.opened_ns,
            finished_ns=max(timer.opened_ns, now),
        )

        def on_end(outcome: Outcome, answer: Answer | None) -> None:
            is_canceled = self._firing.pop(timer.intent)
            if answer is not None and not is_canceled:
                self._answered(timer, outcome, answer)
            self._arm()

        self._outbox.settle(outcome, on_end)

    def _answered(self, timer: _Timer, outcome: Outcome, answer: Answer) -> None:
        assert self._outbox is not None, "answered before start"
        match answer:
            case Refusal(rule=Rule.TIMER_IS_NOT_DUE):
                # The wall clock was set back after we had read it.
                self._set(timer, self._clock() + NS_PER_S)
            case Admitted() | Duplicate() | Refusal():
                self._outbox.tell_answer(outcome, answer)
            case _:
                assert_never(answer)
