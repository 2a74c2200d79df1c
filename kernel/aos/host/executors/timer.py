"""Run ``sys/timer.set@1``: fire when the wall clock reaches the deadline (X-20 to X-24).

One heap holds all timers, and one timer of the event loop waits for the first of them. The loop's
clock stops while the machine sleeps and does not follow changes of the wall clock, so the executor
reads the wall clock at least every ``RECHECK_S`` seconds.

A world may sleep on a million timers, so only the first ones are set: those up to a place in the
order of SN-16. The kernel has the others. When few are left, the executor asks for more; timers of
later places that are published are passed over, because a later answer brings them.

    due                                                        asked for when few are left
    ──▶ firing │ set, in the heap            │ until: in the kernel only ─────────────────▶ time

A timer that is set is one row of bytes, and its task is not kept:

    due ns (8 bytes), record that opened it (8), intent (32), opened ns (8), attempt (8), key

All integers are big-endian, so the order of the rows is that in which the timers fire. The key is
in UTF-8, after a byte 1; without a key, the row ends before that byte.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence
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

HELD_MIN: Final = 1_024
"""Timers below which the executor asks for more."""

HELD_MAX: Final = 16_384
"""Timers above which it leaves the later half to the kernel."""

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

    @classmethod
    def of_task(cls, task: Task, key: str | None) -> Self:
        return cls(task.intent, task.opened_seq, task.opened_ns, task.attempt, key)

    def row(self, due_ns: int) -> bytes:
        head = _ROW.pack(
            min(due_ns, _TIME_MAX), self.opened_seq, self.intent, self.opened_ns, self.attempt
        )
        return head if self.key is None else head + _HAS_KEY + self.key.encode()


def _due_ns(row: bytes) -> int:
    return int.from_bytes(row[:8], "big")


def _place(row: bytes) -> bytes:
    """The place of the timer of a row (SN-16)."""
    return row[:8] + row[16:40]


def _intent_of(row: bytes) -> Hash:
    return Hash(row[16:48])


class TimerExecutor:
    """The ``TaskExecutor`` of timers, which is ``Timing``. ``clock`` is the wall clock in ns.

    Nothing of it is on the disk: each start sets the first timers again (X-23). Without ``begin``,
    it sets all that are published.
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
        self._ended: set[Hash] = set()  # those that fire, and are settled or abandoned
        self._delayed: set[Hash] = set()  # those that are set for a later time than their own
        self._heap: list[bytes] = []
        self._ask: Callable[[Hash | None], None] | None = None
        self._until: bytes | None = None
        """The place up to which all open timers are set; None if all of them are."""
        self._is_asking = False
        self._outbox: JournalOutbox | None = None
        self._alarm: asyncio.Handle | None = None
        self._is_stopping = False

    async def start(self, journal: WorkJournal) -> None:
        self._outbox = JournalOutbox(self.name, journal, self._report)

    def use(self, effective: Effective) -> None:
        pass

    # The first timers

    def begin(self, ask: Callable[[Hash | None], None]) -> None:
        self._ask = ask
        self._until = b""

    def add_page(self, after: Hash | None, tasks: Sequence[Task], until: Hash | None) -> None:
        self._is_asking = False
        if (after or b"") == self._until:  # else it has left later ones to the kernel meanwhile
            self._until = until
            self.publish(tasks)
        self._ask_for_more()

    def _ask_for_more(self) -> None:
        """Ask the kernel for the next timers, if few are left."""
        is_needed = self._until is not None and len(self._armed) < HELD_MIN
        if self._ask is not None and is_needed and not (self._is_asking or self._is_stopping):
            self._is_asking = True
            self._ask(Hash(self._until) if self._until else None)

    def _leave_later_ones(self) -> None:
        """Leave the later half to the kernel, if too many are set."""
        if self._ask is None or len(self._armed) <= HELD_MAX:
            return
        rows = [row for intent, row in self._armed.items() if intent not in self._delayed]
        rows.sort(key=_place)
        later = rows[HELD_MAX // 2 :]
        if later:
            self._until = _place(rows[HELD_MAX // 2 - 1])
            for row in later:
                del self._armed[_intent_of(row)]
            self._make_heap()

    @property
    def has_all(self) -> bool:
        return self._until is None

    def is_open(self, intent: Hash) -> bool:
        return intent in self._armed or (intent in self._firing and intent not in self._ended)

    def ended(self, intents: Iterable[Hash]) -> None:
        for intent in intents:
            if intent in self._firing:
                self._ended.add(intent)
            elif self._armed.pop(intent, None) is not None:
                self._delayed.discard(intent)
        self._ask_for_more()

    # All executors

    def publish(self, tasks: Sequence[Task]) -> None:
        """Set a timer for each task, unless its place is later than those that are set."""
        for task in tasks:
            if task.intent in self._armed or task.intent in self._firing:
                continue
            params: Any = decode_record(task.params)
            row = _Timer.of_task(task, params["key"]).row(params["deliver_at_ns"])
            if self._until is None or _place(row) <= self._until:
                self._set(task.intent, row)
        self._leave_later_ones()
        self._arm()

    def cancel(self, intents: Sequence[Hash]) -> None:
        """End timers as canceled. One that has fired is settled as it was, if the journal takes it
        (X-24)."""
        for intent in intents:
            row = self._armed.pop(intent, None)
            if intent in self._firing:
                self._firing[intent] = True
            if row is not None:
                self._cancel(_Timer.of(row))
        self._ask_for_more()

    def cancel_tasks(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.intent not in self._firing:
                self._armed.pop(task.intent, None)
                self._cancel(_Timer.of_task(task, None))

    def _cancel(self, timer: _Timer) -> None:
        failure = AttemptFailure(code=CANCELED, message="the timer was canceled", retryable=False)
        self._settle(timer, CANCELED, failure.payload(), self._clock())

    async def stop(self) -> None:
        """Fire no more, and wait for pending outcomes."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_stopping = True
        if self._outbox is not None:
            await self._outbox.drain(DRAIN_S)

    def stats(self) -> ExecutorStats:
        """Of the timers, those that are set."""
        settled = 0 if self._outbox is None else self._outbox.settled
        return ExecutorStats(
            running=len(self._armed) + len(self._firing), queued=0, settled=settled
        )

    def is_due(self) -> bool:
        due_ns = self.next_ns()
        return bool(self._firing) or (due_ns is not None and due_ns <= self._clock())

    def next_ns(self) -> int | None:
        while self._heap and not self._is_armed(self._heap[0]):
            heapq.heappop(self._heap)
        if self._heap:
            return _due_ns(self._heap[0])
        return None if self._until is None else _due_ns(self._until)

    def _set(self, intent: Hash, row: bytes) -> None:
        self._armed[intent] = row
        heapq.heappush(self._heap, row)

    def _make_heap(self) -> None:
        """Make the heap without timers that are not set any more."""
        self._heap = list(self._armed.values())
        heapq.heapify(self._heap)

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
            self._make_heap()
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
                self._delayed.discard(timer.intent)
                payload = encode({"delivered_at_ns": now, "key": timer.key})
                self._settle(timer, "ok", payload, now)
        self._ask_for_more()
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
            self._ended.discard(timer.intent)
            if answer is not None and not is_canceled:
                self._answered(timer, outcome, answer)
            self._arm()

        self._outbox.settle(outcome, on_end)

    def _answered(self, timer: _Timer, outcome: Outcome, answer: Answer) -> None:
        assert self._outbox is not None, "answered before start"
        match answer:
            case Refusal(rule=Rule.TIMER_IS_NOT_DUE):
                # The wall clock was set back after we had read it.
                self._delayed.add(timer.intent)
                self._set(timer.intent, timer.row(self._clock() + NS_PER_S))
            case Admitted() | Duplicate() | Refusal():
                self._outbox.tell_answer(outcome, answer)
            case _:
                assert_never(answer)
