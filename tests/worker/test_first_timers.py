"""The executor of timers sets the first ones only, and asks the kernel for more (X-21, X-23)."""

from __future__ import annotations

import asyncio
import random
from bisect import insort
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from aos.core.decide.answers import Answer, Rule
from aos.host.executors import timer
from aos.host.executors.task import Task
from aos.host.executors.timer import TimerExecutor
from aos.values.digests import Hash
from aos.worker.outcome import Outcome
from tests.answers import SETTLED, refused
from tests.worker.stage import Clock, Journal, act, error_code, intent_of, task

NOW = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "RECHECK_S", 0.002)
    monkeypatch.setattr(timer, "HELD_MIN", 3)
    monkeypatch.setattr(timer, "HELD_MAX", 8)


def timer_task(number: int, due_ns: int) -> Task:
    return task(number, "sys/timer.set@1", {"deliver_at_ns": due_ns, "key": None})


class OpenTimers:
    """The open timers of a world, which the executor asks for by pages of two."""

    def __init__(self, executor: TimerExecutor) -> None:
        self.executor = executor
        self.rows: list[tuple[bytes, int]] = []
        """(place, number of the timer), ascending."""
        self.due: dict[int, int] = {}
        self.asked: list[Hash | None] = []
        executor.begin(self.ask)

    def add(self, number: int, due_ns: int) -> None:
        self.due[number] = due_ns
        insort(self.rows, (due_ns.to_bytes(8, "big") + intent_of(number)[:24], number))

    def open(self, number: int, due_ns: int) -> None:
        self.add(number, due_ns)
        self.executor.publish([timer_task(number, due_ns)])

    def end(self, number: int) -> None:
        self.rows = [row for row in self.rows if row[1] != number]
        self.executor.ended([intent_of(number)])

    def ask(self, after: Hash | None) -> None:
        self.asked.append(after)
        asyncio.get_running_loop().call_soon(self.answer, after)

    def answer(self, after: Hash | None) -> None:
        page = [row for row in self.rows if after is None or row[0] > after][:2]
        until = Hash(page[-1][0]) if len(page) == 2 else None
        tasks = [timer_task(number, self.due[number]) for _, number in page]
        self.executor.add_page(after, tasks, until)


def played(
    clock: Clock,
    play: Callable[[TimerExecutor, Journal, OpenTimers], Awaitable[None]],
    answer: Callable[[Outcome], Awaitable[Answer]] | None = None,
) -> Journal:
    async def scene(executor: TimerExecutor, journal: Journal) -> None:
        await play(executor, journal, OpenTimers(executor))

    return act(
        lambda journal: TimerExecutor(clock=clock, report=journal.report), scene, answer=answer
    )


def test_only_the_first_timers_are_set_and_all_fire_in_their_order() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        for number in range(20):
            world.add(number, NOW + 1 + (number * 7) % 20)
        executor.add_page(None, [], Hash(bytes(32)))
        await asyncio.sleep(0.01)
        assert executor.stats().running == 4
        assert executor.next_ns() == NOW + 1
        assert not executor.is_due()
        clock.ns = NOW + 30
        await journal.wait(20)
        await asyncio.sleep(0.01)
        assert (bool(executor.has_all), executor.next_ns(), executor.is_due()) == (
            True,
            None,
            False,
        )

    fired = [outcome.intent for outcome in played(clock, play).outcomes]
    assert fired == [intent_of(n) for n in sorted(range(20), key=lambda n: (n * 7) % 20)]


def test_before_the_first_page_a_timer_may_be_due() -> None:
    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        del journal, world
        assert executor.is_due()
        executor.add_page(None, [], None)
        assert executor.has_all
        assert not executor.is_due()

    played(Clock(NOW), play)


def test_a_later_timer_is_left_to_the_kernel_and_a_sooner_one_is_set() -> None:
    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        for number in range(6):
            world.add(number, NOW + 10 * number)
        executor.add_page(None, [timer_task(n, NOW + 10 * n) for n in range(4)], place(world, 3))
        world.open(10, NOW + 25)
        world.open(11, NOW + 35)
        assert executor.is_open(intent_of(10))
        assert not executor.is_open(intent_of(11))
        await journal.wait(1)  # timer 0
        assert world.asked == []
        await journal.wait(1)

    assert played(Clock(NOW), play).outcomes[0].intent == intent_of(0)


def place(world: OpenTimers, number: int) -> Hash:
    return next(Hash(row[0]) for row in world.rows if row[1] == number)


def test_of_too_many_timers_the_later_half_goes_back_to_the_kernel() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        executor.add_page(None, [], None)
        for number in range(9):
            world.open(number, NOW + 100 - number)
        assert executor.stats().running == 4
        assert [executor.is_open(intent_of(n)) for n in (4, 5, 8)] == [False, True, True]
        clock.ns = NOW + 100
        await journal.wait(9)

    fired = [outcome.intent for outcome in played(clock, play).outcomes]
    assert fired == [intent_of(n) for n in reversed(range(9))]


def test_a_page_that_was_asked_for_before_timers_went_back_is_passed_over() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        for number in range(4):
            world.add(number, NOW + 100 + number)
        # It asks for more.
        executor.add_page(None, [timer_task(0, NOW + 100)], place(world, 0))
        for number in range(10, 20):
            world.open(number, NOW + 50 - number)
        assert world.asked == [place(world, 0)]
        await asyncio.sleep(0.01)
        assert not executor.is_open(intent_of(1))
        clock.ns = NOW + 200
        await journal.wait(14)

    fired = [outcome.intent for outcome in played(clock, play).outcomes]
    assert len(fired) == len(set(fired)) == 14


def test_a_timer_that_comes_again_is_kept_however_many_there_are() -> None:
    """X-22: the kernel has it at a place that is set already."""
    clock = Clock(NOW)
    answers: list[Answer] = [refused(Rule.TIMER_IS_NOT_DUE)]

    async def answer(_: Outcome) -> Answer:
        return answers.pop() if answers else SETTLED

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        executor.add_page(None, [], None)
        world.open(0, NOW)
        await journal.wait(1)
        await asyncio.sleep(0.01)
        for number in range(1, 12):
            world.open(number, NOW + number)
        assert executor.is_open(intent_of(0))
        clock.ns = NOW + 2 * 10**9
        await journal.wait(13)

    fired = [outcome.intent for outcome in played(clock, play, answer).outcomes]
    assert len(set(fired)) == 12
    assert fired.count(intent_of(0)) == 2


def test_a_timer_that_is_not_set_is_canceled_by_its_task() -> None:
    """X-24."""

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        for number in range(6):
            world.add(number, NOW + 10 + number)
        executor.add_page(None, [timer_task(n, NOW + 10 + n) for n in range(3)], place(world, 2))
        executor.cancel([intent_of(5)])
        assert journal.outcomes == []
        executor.cancel_tasks([timer_task(5, NOW + 15), timer_task(1, NOW + 11)])
        await journal.wait(2)

    outcomes = played(Clock(NOW), play).outcomes
    assert [outcome.intent for outcome in outcomes] == [intent_of(5), intent_of(1)]
    assert {error_code(outcome) for outcome in outcomes} == {"canceled"}


def test_a_timer_that_ended_elsewhere_does_not_fire() -> None:
    clock = Clock(NOW)

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        executor.add_page(None, [], None)
        world.open(1, NOW + 1)
        world.open(2, NOW + 2)
        world.end(1)
        assert not executor.is_open(intent_of(1))
        clock.ns = NOW + 5
        await journal.wait(1)

    assert [outcome.intent for outcome in played(clock, play).outcomes] == [intent_of(2)]


def test_a_timer_that_fires_is_open_until_its_end_is_told() -> None:
    waits = asyncio.Event()

    async def answer(_: Outcome) -> Answer:
        await waits.wait()
        return SETTLED

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        executor.add_page(None, [], None)
        world.open(1, NOW)
        await asyncio.sleep(0.01)
        assert executor.is_open(intent_of(1))
        assert executor.is_due()
        world.end(1)
        assert not executor.is_open(intent_of(1))
        waits.set()
        await journal.wait(1)

    played(Clock(NOW), play, answer)


@pytest.mark.parametrize("seed", range(12))
def test_each_open_timer_fires_once_at_its_time(seed: int) -> None:
    chance = random.Random(seed)
    clock = Clock(NOW)
    ended: set[int] = set()

    async def play(executor: TimerExecutor, journal: Journal, world: OpenTimers) -> None:
        for number in range(20):
            world.add(number, NOW + chance.randrange(400))
        executor.add_page(None, [], Hash(bytes(32)))
        number = 20
        for _ in range(120):
            match chance.randrange(5):
                case 0 | 1:
                    world.open(number, clock.ns + chance.randrange(300))
                    number += 1
                case 2 if world.rows:
                    _, victim = chance.choice(world.rows)
                    if world.due[victim] > clock.ns:
                        ended.add(victim)
                        world.end(victim)
                case 3:
                    clock.ns += chance.randrange(20)
                case _:
                    await asyncio.sleep(0)
            for outcome in journal.outcomes:
                gone = next(n for n in world.due if intent_of(n) == outcome.intent)
                world.rows = [row for row in world.rows if row[1] != gone]
            assert executor.stats().running <= 8 + len(world.asked)
        clock.ns = NOW + 10**6
        await journal.wait(number - len(ended))
        await asyncio.sleep(0.01)

    fired = [outcome.intent for outcome in played(clock, play).outcomes]
    assert len(fired) == len(set(fired))
    assert not {intent_of(number) for number in ended} & set(fired)


def test_a_place_is_that_of_the_kernel() -> None:
    """SN-16."""
    row = replace(timer_task(3, NOW), opened_seq=77)
    data = timer._Timer.of_task(row, "key").row(NOW)
    assert timer._place(data) == NOW.to_bytes(8, "big") + intent_of(3)[:24]
