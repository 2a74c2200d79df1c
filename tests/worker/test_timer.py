"""Timers fire once the wall clock is there, never before, however many (X-20 to X-24)."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from aos.core.decide.answers import Answer, Rule
from aos.host.executors import timer
from aos.host.executors.task import ExecutorStats, Task
from aos.host.executors.timer import TimerExecutor
from aos.worker.outcome import Outcome
from tests.answers import LATE, SETTLED, refused
from tests.worker.stage import Clock, Journal, act, effective, error_code, intent_of, payload, task

NOW = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture(autouse=True)
def quick_recheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "RECHECK_S", 0.002)


def timer_task(number: int, due_ns: int, key: str | None = None) -> Task:
    return task(number, "sys/timer.set@1", {"deliver_at_ns": due_ns, "key": key})


def played(
    clock: Clock,
    play: Callable[[TimerExecutor, Journal], Awaitable[None]],
    answer: Callable[[Outcome], Awaitable[Answer]] | None = None,
) -> Journal:
    return act(
        lambda journal: TimerExecutor(clock=clock, report=journal.report), play, answer=answer
    )


def test_a_timer_fires_at_its_deadline_and_not_one_nanosecond_before() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW + 5 * MS, "k")])
        clock.ns = NOW + 5 * MS - 1
        await asyncio.sleep(0.02)
        assert journal.outcomes == []
        clock.ns += 1
        await journal.wait(1)

    (fired,) = played(clock, play).outcomes

    assert (fired.status, fired.attempt, fired.executor, fired.signature) == ("ok", 1, "node", None)
    assert payload(fired) == {"delivered_at_ns": NOW + 5 * MS, "key": "k"}
    assert (fired.started_ns, fired.finished_ns) == (1_000, NOW + 5 * MS)


def test_the_payload_is_a_receipt_in_normal_form() -> None:
    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW)])
        await journal.wait(1)

    (fired,) = played(Clock(NOW), play).outcomes

    receipt = effective().effects["sys/timer.set@1"].receipt
    assert receipt.from_record(fired.payload) == {"delivered_at_ns": NOW, "key": None}


def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(n, NOW + due) for n, due in ((1, 30), (2, 10), (3, 20))])
        executor.publish([timer_task(4, NOW + 10)])
        clock.ns = NOW + 100
        await journal.wait(4)

    outcomes = played(clock, play).outcomes
    assert [each.intent for each in outcomes] == [intent_of(n) for n in (2, 4, 3, 1)]


def test_a_timer_that_is_long_due_fires_at_once_and_once() -> None:
    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, 5), timer_task(1, 5)])
        executor.publish([timer_task(1, 5)])
        await journal.wait(1)
        await asyncio.sleep(0.01)

    assert len(played(Clock(NOW), play).outcomes) == 1


def test_a_clock_that_is_set_back_makes_the_timer_wait() -> None:
    """X-21."""
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW + 5 * MS)])
        clock.ns = NOW - 10**9
        await asyncio.sleep(0.02)
        assert journal.outcomes == []
        clock.ns = NOW + 5 * MS
        await journal.wait(1)

    assert len(played(clock, play).outcomes) == 1


def test_a_receipt_that_the_journal_finds_too_early_comes_again() -> None:
    """X-22."""
    clock = Clock(NOW)
    answers: list[Answer] = [refused(Rule.TIMER_IS_NOT_DUE), SETTLED]

    async def answer(outcome: Outcome) -> Answer:
        return answers.pop(0)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW)])
        await journal.wait(1)
        await asyncio.sleep(0.01)
        assert executor.stats() == ExecutorStats(running=1, queued=0, settled=0)
        clock.ns += 10**9
        await journal.wait(2)

    journal = played(clock, play, answer)
    assert [payload(each)["delivered_at_ns"] for each in journal.outcomes] == [NOW, NOW + 10**9]
    assert journal.lines == []


def test_another_refusal_is_told_of_and_not_repeated_whatever_its_message_quotes() -> None:
    """X-22: the message names every rule, ``timer_is_not_due`` too."""

    async def answer(outcome: Outcome) -> Answer:
        return refused(Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW)])
        await journal.until(lambda: bool(journal.lines))
        assert executor.stats() == ExecutorStats(running=0, queued=0, settled=0)

    journal = played(Clock(NOW), play, answer)
    assert "its receipt was refused: receipt_executor_may_not_sign" in journal.printed


def test_a_timer_is_canceled() -> None:
    """X-24."""
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW + 1), timer_task(2, NOW + 1)])
        executor.cancel([intent_of(1), intent_of(1), intent_of(9)])
        await journal.wait(1)
        clock.ns = NOW + 1
        await journal.wait(2)

    canceled, fired = played(clock, play).outcomes
    assert (canceled.intent, canceled.status, error_code(canceled)) == (
        intent_of(1),
        "canceled",
        "canceled",
    )
    assert (fired.intent, fired.status) == (intent_of(2), "ok")


@pytest.mark.parametrize("is_armed", [True, False])
@pytest.mark.parametrize(
    "answer",
    [LATE, refused(Rule.RECEIPT_INTENT_IS_UNKNOWN), refused(Rule.TIMER_IS_NOT_DUE)],
)
def test_any_answer_to_the_receipt_of_a_canceled_timer_is_accepted(
    answer: Answer, is_armed: bool
) -> None:
    """X-24: the core has settled it, and takes no other receipt."""

    async def settle(_: Outcome) -> Answer:
        await asyncio.sleep(0.02)
        return answer

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW + 1 if is_armed else NOW)])
        await asyncio.sleep(0.01)
        executor.cancel([intent_of(1)])
        await journal.wait(1)
        await asyncio.sleep(0)
        assert executor.stats() == ExecutorStats(running=0, queued=0, settled=0)

    journal = played(Clock(NOW), play, settle)
    assert [each.status for each in journal.outcomes] == ["canceled" if is_armed else "ok"]
    assert journal.lines == []


def test_a_timer_that_is_on_its_way_is_not_canceled() -> None:
    """The journal's order decides."""

    async def answer(outcome: Outcome) -> Answer:
        await asyncio.sleep(0.02)
        return SETTLED

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(1, NOW)])
        await asyncio.sleep(0.01)
        executor.cancel([intent_of(1)])
        executor.publish([timer_task(1, NOW)])
        await journal.wait(1)

    assert [each.status for each in played(Clock(NOW), play, answer).outcomes] == ["ok"]


def test_no_more_fired_timers_wait_for_the_journal_than_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X-23."""
    monkeypatch.setattr(timer, "SETTLING_MAX", 3)
    waiting: list[int] = [0, 0]

    async def answer(outcome: Outcome) -> Answer:
        waiting[0] += 1
        waiting[1] = max(waiting)
        await asyncio.sleep(0.001)
        waiting[0] -= 1
        return SETTLED

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timer_task(n, NOW) for n in range(10)])
        await journal.wait(10)

    played(Clock(NOW), play, answer)
    assert waiting == [0, 3]


def test_canceled_timers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "SETTLING_MAX", 8)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        tasks = [timer_task(n, NOW + 10**18) for n in range(100)]
        executor.publish(tasks)
        executor.cancel([each.intent for each in tasks[:99]])
        await journal.wait(99)
        executor.publish([timer_task(100, NOW + 10**18)])
        assert len(executor._heap) <= 2 * 2 + 8

    played(Clock(NOW), play)


def test_timers_of_one_moment_fire_in_the_order_of_opening() -> None:
    tasks = [replace(timer_task(n, NOW, str(n)), opened_seq=100 - n) for n in range(5)]

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish(tasks)
        await journal.wait(5)

    fired = played(Clock(NOW), play).outcomes
    assert [payload(outcome)["key"] for outcome in fired] == ["4", "3", "2", "1", "0"]


@pytest.mark.parametrize("key", [None, "", "\x00é🕰"])
def test_a_timer_keeps_its_key_attempt_and_time(key: str | None) -> None:
    timed = replace(timer_task(1, NOW, key), attempt=7, opened_ns=NOW - 3)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        executor.publish([timed])
        await journal.wait(1)

    (fired,) = played(Clock(NOW), play).outcomes
    assert payload(fired)["key"] == key
    assert (fired.intent, fired.attempt, fired.started_ns) == (timed.intent, 7, NOW - 3)


def test_a_timer_that_is_set_takes_few_bytes() -> None:
    """A world sleeps on a million of them: the task is not kept (X-21)."""
    count = 5_000

    def tasks() -> Iterator[Task]:
        for n in range(count):
            yield replace(timer_task(n, NOW + 10**18), idempotency_key="k" * 71)

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        del journal
        tracemalloc.start()
        executor.publish(cast("Any", tasks()))
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert executor.stats().running == count
        assert size < 400 * count

    played(Clock(NOW), play)


def test_a_hundred_thousand_timers_are_armed_and_fire() -> None:
    """X-21: one heap and one alarm, so that many timers cost little each."""
    clock = Clock(NOW)
    count = 100_000
    soon, late = timer_task(0, NOW + MS), timer_task(0, NOW + 10**18)
    tasks = [
        Task(
            intent=intent_of(n),
            effect=soon.effect,
            params=soon.params if n % 100 == 0 else late.params,
            idempotency_key="",
            workflow="w",
            cell_key=b"",
            issuer_ref=None,
            opened_seq=n,
            opened_ns=0,
        )
        for n in range(count)
    ]
    took: list[float] = []

    async def play(executor: TimerExecutor, journal: Journal) -> None:
        begun = time.process_time()
        executor.publish(tasks)
        took.append(time.process_time() - begun)
        assert executor.stats() == ExecutorStats(running=count, queued=0, settled=0)
        clock.ns += MS
        await journal.wait(1000)
        assert executor.stats() == ExecutorStats(running=count - 1000, queued=0, settled=1000)

    journal = played(clock, play)

    assert {each.status for each in journal.outcomes} == {"ok"}
    assert took[0] < 5
