"""The order in which tasks run, and their outcome when their process dies (X-54 to X-57)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from aos.host.executors.backlog import Backlog, Death, Work, WorkStage
from aos.host.executors.limiter import Limit
from aos.host.executors.task import Halted, Task
from aos.values.cbor import encode
from tests.effects.builtin_effects import effects, params_of
from tests.worker.stage import intent_of, task

PORTAL: Final = "sys/portal.send@1"


def backlog(**slots: int) -> Backlog:
    made = Backlog()
    made.slots = {f"test/{name}@1": count for name, count in slots.items()}
    return made


def numbers(works: list[Work]) -> list[int]:
    return [work.task.opened_seq for work in works]


def died(tasks: Backlog) -> Death:
    return tasks.take_back("it died", is_death=True)


def begin_all(tasks: Backlog) -> list[Work]:
    """Those that may run now, each once its attempt is journaled."""
    works = list(tasks.ready())
    for work in works:
        if work.stage is WorkStage.BEGINNING:
            assert tasks.answered(work, is_granted=True, is_ready=True)
    return works


def test_as_many_run_as_there_are_slots_in_the_order_they_came() -> None:
    tasks = backlog(echo=2, other=1)
    for number in range(1, 5):
        tasks.add(task(number))
        tasks.add(task(number + 10, "test/other@1"))

    assert numbers(list(tasks.ready())) == [1, 2, 11]
    assert numbers(list(tasks.ready())) == []
    tasks.end(intent_of(2))
    assert numbers(list(tasks.ready())) == [3]
    assert (tasks.running, tasks.busy, len(tasks)) == (3, 4, 8)
    tasks.forget(intent_of(2))
    assert (tasks.running, tasks.busy, len(tasks)) == (3, 3, 7)


def test_a_task_that_is_here_already_is_left_as_it_is() -> None:
    """X-2."""
    tasks = backlog(echo=5)
    tasks.add(task(1))
    tasks.add(task(1))
    assert len(list(tasks.ready())) == 1
    tasks.add(task(1))
    assert len(list(tasks.ready())) == 0


def test_an_effect_without_slots_waits() -> None:
    tasks = backlog()
    tasks.add(task(1))

    assert list(tasks.ready()) == []
    assert set(tasks.tasks()) == {intent_of(1)}


def test_an_ended_task_is_not_ended_again() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    list(tasks.ready())

    assert tasks.end(intent_of(1)) is not None
    assert tasks.end(intent_of(1)) is None
    assert tasks.end(intent_of(2)) is None


def test_a_queued_task_is_canceled_at_once_and_takes_no_slot() -> None:
    """X-6."""
    tasks = backlog(echo=1)
    for number in (1, 2, 3):
        tasks.add(task(number))
    list(tasks.ready())

    assert tasks.cancel(intent_of(2)) is None
    assert numbers(list(tasks.canceling())) == [2]
    assert tasks.cancel(intent_of(9)) is None
    tasks.end(intent_of(1))
    tasks.end(intent_of(2))
    assert numbers(list(tasks.ready())) == [3]


def test_a_running_task_is_canceled_by_its_process() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    (running,) = tasks.ready()

    assert tasks.cancel(intent_of(1)) is running
    tasks.end(intent_of(1))
    assert tasks.cancel(intent_of(1)) is None


def test_interrupted_tasks_run_again_first_and_with_the_next_attempt() -> None:
    """X-56."""
    tasks = backlog(echo=2)
    for number in (1, 2, 3):
        tasks.add(task(number))
    _, second = begin_all(tasks)
    assert tasks.ask(second, 2, "busy")
    assert tasks.answered(second, is_granted=True, is_ready=True)

    death = died(tasks)

    assert (death.cause, death.lost) == (None, [])
    again = begin_all(tasks)
    assert [(work.task.opened_seq, work.attempt, work.problem) for work in again] == [
        (1, 2, "it died"),
        (2, 3, "it died"),
    ]
    assert {work.task.idempotency_key for work in again} == {
        task(1).idempotency_key,
        task(2).idempotency_key,
    }


def test_a_cancel_that_was_on_its_way_is_sent_again() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    tasks.cancel(intent_of(1))
    list(tasks.canceling())

    died(tasks)

    assert [(work.task.opened_seq, work.attempt) for work in tasks.canceling()] == [(1, 1)]
    assert list(tasks.ready()) == []


def limited(**limits: Limit) -> Backlog:
    made = Backlog({f"test/{name}@1": limit for name, limit in limits.items()})
    made.slots = {"test/echo@1": 8, "test/other@1": 8}
    return made


def test_no_more_run_than_the_limit_of_their_effect_allows() -> None:
    """N-65a"""
    tasks = limited(echo=Limit(concurrency=2))
    for number in range(1, 5):
        tasks.add(task(number))
        tasks.add(task(number + 10, "test/other@1"))

    assert numbers(begin_all(tasks)) == [1, 2, 11, 12, 13, 14]
    assert tasks.due_ns is None
    tasks.end(intent_of(1))
    assert numbers(begin_all(tasks)) == [3]
    died(tasks)
    assert numbers(begin_all(tasks)) == [2, 3, 11, 12, 13, 14], "the places of a process are free"


def test_a_rate_lets_tasks_begin_one_after_another() -> None:
    """N-65a"""
    tasks = limited(echo=Limit(interval_ns=100, burst=2))
    for number in range(1, 6):
        tasks.add(task(number))

    assert numbers(list(tasks.ready(1_000))) == [1, 2]
    assert tasks.due_ns == 1_100
    assert numbers(list(tasks.ready(1_099))) == []
    assert numbers(list(tasks.ready(1_100))) == [3]
    assert tasks.due_ns == 1_200
    assert numbers(list(tasks.ready(5_000))) == [4, 5]
    assert tasks.due_ns is None


def test_a_limit_may_hold_for_each_value_and_values_take_turns() -> None:
    """N-65a"""
    tasks = limited(echo=Limit(concurrency=1, by=("n",)))
    tasks.slots = {"test/echo@1": 2}
    for number in range(1, 7):
        tasks.add(task(number, params={"n": number % 3}))

    assert numbers(list(tasks.ready())) == [1, 2], "two slots, two values"
    tasks.end(intent_of(1))
    assert numbers(list(tasks.ready())) == [3], "the third value comes before the first again"
    tasks.end(intent_of(2))
    assert numbers(list(tasks.ready())) == [4]
    for number in (3, 4):
        tasks.end(intent_of(number))
    assert numbers(list(tasks.ready())) == [5, 6]


def test_suspects_run_alone_and_the_one_that_does_it_again_is_parked() -> None:
    """X-57."""
    tasks = backlog(echo=3, other=1)
    for number in (1, 2, 3):
        tasks.add(task(number))
    tasks.add(task(11, "test/other@1"))
    for _ in range(2):
        assert numbers(begin_all(tasks)) == [1, 2, 3, 11]
        assert died(tasks).cause is None

    assert numbers(begin_all(tasks)) == [1]
    assert numbers(begin_all(tasks)) == []
    tasks.end(intent_of(1))
    assert numbers(begin_all(tasks)) == [2]
    cause = died(tasks).cause

    assert cause is not None
    assert (cause.task.opened_seq, cause.deaths, cause.attempt) == (2, 3, 4)
    assert set(tasks.parked) == {intent_of(2)}
    assert numbers(begin_all(tasks)) == [3]
    tasks.end(intent_of(3))
    assert numbers(begin_all(tasks)) == [11]
    tasks.end(intent_of(11))
    assert numbers(begin_all(tasks)) == []


def test_a_parked_task_can_be_canceled() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    for _ in range(3):
        begin_all(tasks)
        died(tasks)

    assert tasks.cancel(intent_of(1)) is None
    assert numbers(list(tasks.canceling())) == [1]
    assert tasks.parked == {}


def test_a_process_that_we_end_makes_no_task_a_suspect() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    for _ in range(9):
        assert len(begin_all(tasks)) == 1
        assert tasks.take_back("it was ended", is_death=False).cause is None

    (work,) = begin_all(tasks)
    assert (work.attempt, work.deaths) == (10, 0)


def test_a_task_begins_with_the_attempt_that_it_comes_with() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1, attempt=4))

    (work,) = tasks.ready()
    assert work.attempt == 4


# Attempts that the journal does not have yet


def once(number: int) -> Task:
    return task(number, "test/once@1")


def beginning(*tasks: Task) -> tuple[Backlog, list[Work]]:
    made = backlog(echo=9, once=9)
    for each in tasks:
        made.add(each)
    return made, list(made.ready())


def test_only_what_may_run_once_waits_for_the_journal_before_its_first_run() -> None:
    _, (echo, single) = beginning(task(1), once(2))

    assert (echo.stage, echo.pending_attempt) == (WorkStage.RUNNING, None)
    assert (single.stage, single.pending_attempt, single.journaled) == (WorkStage.BEGINNING, 1, 0)


def test_a_task_that_waits_for_the_journal_has_its_slot_and_is_no_run() -> None:
    tasks, (work,) = beginning(once(1))

    assert (tasks.running, tasks.at_work(intent_of(1)), tasks.end(intent_of(1))) == (1, None, None)
    assert tasks.answered(work, is_granted=True, is_ready=True)
    assert tasks.at_work(intent_of(1)) is work


def test_an_at_most_once_task_is_lost_with_its_process() -> None:
    tasks, (work, other) = beginning(once(1), once(2))
    tasks.answered(work, is_granted=True, is_ready=True)

    death = died(tasks)

    assert death.lost == [work]
    assert list(tasks.ready()) == []
    assert set(tasks.tasks()) == {intent_of(2)}
    assert tasks.cancel(intent_of(1)) is None  # the core has settled it
    assert len(tasks) == 1
    # The other was not sent: it may run, in the next process.
    assert not tasks.answered(other, is_granted=True, is_ready=False)
    assert numbers(list(tasks.ready())) == [2]
    assert other.stage is WorkStage.RUNNING


def test_an_attempt_that_is_refused_does_not_begin() -> None:
    tasks, (work,) = beginning(once(1))

    assert not tasks.answered(work, is_granted=False, is_ready=True)

    assert list(tasks.ready()) == []
    assert set(tasks.parked) == {intent_of(1)}
    assert tasks.running == 0


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_task_that_is_canceled_while_it_waits_for_the_journal_does_not_begin(
    is_granted: bool,
) -> None:
    tasks, (work,) = beginning(once(1))

    assert tasks.cancel(intent_of(1)) is None
    assert list(tasks.canceling()) == []
    assert not tasks.answered(work, is_granted=is_granted, is_ready=True)

    assert list(tasks.canceling()) == [work]
    assert (work.begun, tasks.parked, list(tasks.ready())) == (1, {}, [])


def test_a_process_asks_for_the_next_attempt_only() -> None:
    tasks, (work,) = beginning(task(1))

    assert not tasks.ask(work, 1, "again")
    assert not tasks.ask(work, 3, "again")
    assert tasks.ask(work, 2, "busy")
    assert not tasks.ask(work, 2, "busy")
    assert (work.attempt, work.pending_attempt) == (1, 2)
    assert tasks.answered(work, is_granted=True, is_ready=True)
    assert (work.attempt, work.journaled, work.stage) == (2, 2, WorkStage.RUNNING)


def test_a_process_that_dies_while_it_asks_has_the_attempt_that_it_asked_for() -> None:
    """The journal has one record of that attempt, not two."""
    tasks, (work,) = beginning(task(1))
    tasks.ask(work, 2, "busy")

    died(tasks)

    assert (work.attempt, work.stage, list(tasks.ready())) == (2, WorkStage.ASKING, [])
    assert not tasks.answered(work, is_granted=True, is_ready=True)
    assert numbers(list(tasks.ready())) == [1]
    assert (work.attempt, work.stage, work.problem) == (2, WorkStage.RUNNING, "busy")


def test_an_answer_that_comes_after_the_outcome_changes_nothing() -> None:
    tasks, (work,) = beginning(task(1))
    tasks.ask(work, 2, "busy")
    tasks.end(intent_of(1))

    assert not tasks.answered(work, is_granted=True, is_ready=True)

    assert work.stage is WorkStage.SETTLING
    assert tasks.forget(intent_of(1)) is work
    assert (len(tasks), tasks.busy) == (0, 0)


def test_a_canceled_task_is_not_run_again_after_a_death() -> None:
    """X-6."""
    tasks, (plain, single) = beginning(task(1), once(2))
    tasks.answered(single, is_granted=True, is_ready=True)
    tasks.cancel(intent_of(1))
    tasks.cancel(intent_of(2))

    assert died(tasks).lost == []

    assert list(tasks.ready()) == []
    assert set(numbers(list(tasks.canceling()))) == {1, 2}
    assert (plain.begun, single.begun) == (1, 1)


def laned(number: int, value: int | None) -> Task:
    return task(number, "test/laned@1", {"n": value})


def test_tasks_of_a_lane_run_one_at_a_time_in_the_order_of_opening() -> None:
    """M-5a."""
    tasks = backlog(laned=5)
    for number, value in ((1, 7), (2, 7), (3, None), (4, 7), (5, 8)):
        tasks.add(laned(number, value))

    assert numbers(list(tasks.ready())) == [1, 3, 5]
    tasks.end(intent_of(1))
    assert numbers(list(tasks.ready())) == [], "its receipt is not durable yet"
    tasks.forget(intent_of(1))
    assert numbers(list(tasks.ready())) == [2]
    tasks.end(intent_of(2))
    tasks.forget(intent_of(2))
    assert numbers(list(tasks.ready())) == [4]


def portal_task(
    number: int, world: str, *, cell: bytes = b"a", universe: str | None = None
) -> Task:
    params = {
        "dest_universe": universe, "dest_world": world, "mode": "typed", "schema": "t/E@1",
        "value_cbor": b"", "inbox": None, "payload_cbor": None, "headers": None,
        "correlation_id": None,
    }  # fmt: skip
    found = replace(task(number, cell_key=cell), effect=effects()[PORTAL])
    return replace(found, params=encode(params_of(PORTAL, params)))


def test_messages_of_a_cell_to_a_world_go_out_in_their_order() -> None:
    """AG-85a: also during the pause before another attempt; other cells and worlds do not wait."""
    tasks = Backlog()
    tasks.slots = {PORTAL: 9}
    one, two = ("1b4e28ba-2fa1-41d2-883f-0016d3cca427", "6fa459ea-ee8a-3ca4-894e-db77e160355e")
    for number, given in enumerate(
        (
            portal_task(1, one), portal_task(2, one), portal_task(3, two),
            portal_task(4, one, cell=b"b"), portal_task(5, one, universe=two),
            replace(portal_task(6, one), workflow="test/other@1"), portal_task(7, one),
        ),
        1,
    ):  # fmt: skip
        assert given.opened_seq == number
        tasks.add(given)

    assert numbers(list(tasks.ready())) == [1, 3, 4, 5, 6]
    tasks.end(intent_of(1))
    assert numbers(list(tasks.ready())) == [], "the first message may still be sent again"
    tasks.forget(intent_of(1))
    assert numbers(list(tasks.ready())) == [2]
    tasks.end(intent_of(2))
    tasks.forget(intent_of(2))
    assert numbers(list(tasks.ready())) == [7]


def test_a_parked_task_keeps_its_lane_until_it_runs_again_or_ends() -> None:
    """M-5a."""
    tasks = backlog(laned=5)
    tasks.add(laned(1, 7))
    tasks.add(laned(2, 7))
    (work,) = tasks.ready()
    tasks.halt(work, Halted("parked", "exception", "it raised"))
    assert numbers(list(tasks.ready())) == []

    assert tasks.retry(intent_of(1))
    assert numbers(begin_all(tasks)) == [1]
    tasks.end(intent_of(1))
    tasks.forget(intent_of(1))
    assert numbers(list(tasks.ready())) == [2]


def test_a_task_that_is_canceled_in_its_lane_never_runs() -> None:
    """M-5a."""
    tasks = backlog(laned=5)
    for number in (1, 2, 3):
        tasks.add(laned(number, 7))
    list(tasks.ready())
    tasks.cancel(intent_of(2))
    list(tasks.canceling())
    tasks.end(intent_of(1))
    tasks.forget(intent_of(1))
    assert numbers(list(tasks.ready())) == [], "the canceled one has its lane until it has ended"
    tasks.end(intent_of(2))
    tasks.forget(intent_of(2))
    assert numbers(list(tasks.ready())) == [3]
