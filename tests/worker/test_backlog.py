"""Which task runs when, and what becomes of it when its process dies (X-54 to X-57)."""

from __future__ import annotations

from aos.host.executors.backlog import Backlog, Work
from tests.worker.stage import intent_of, task


def backlog(**slots: int) -> Backlog:
    made = Backlog()
    made.slots = {f"test/{name}@1": count for name, count in slots.items()}
    return made


def numbers(works: list[Work]) -> list[int]:
    return [work.task.opened_seq for work in works]


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


def test_what_was_running_runs_again_first_and_with_the_next_attempt() -> None:
    """X-56."""
    tasks = backlog(echo=2)
    for number in (1, 2, 3):
        tasks.add(task(number))
    list(tasks.ready())
    tasks.attempt(intent_of(2), 3)

    assert tasks.take_back(is_death=True) is None

    again = list(tasks.ready())
    assert [(work.task.opened_seq, work.attempt) for work in again] == [(1, 2), (2, 4)]
    assert {work.task.idempotency_key for work in again} == {
        task(1).idempotency_key,
        task(2).idempotency_key,
    }


def test_a_cancel_that_was_on_its_way_is_sent_again() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    tasks.cancel(intent_of(1))
    list(tasks.canceling())

    tasks.take_back(is_death=True)

    assert [(work.task.opened_seq, work.attempt) for work in tasks.canceling()] == [(1, 1)]
    assert list(tasks.ready()) == []


def test_suspects_run_alone_and_the_one_that_does_it_again_is_parked() -> None:
    """X-57."""
    tasks = backlog(echo=3, other=1)
    for number in (1, 2, 3):
        tasks.add(task(number))
    tasks.add(task(11, "test/other@1"))
    for _ in range(2):
        assert numbers(list(tasks.ready())) == [1, 2, 3, 11]
        assert tasks.take_back(is_death=True) is None

    assert numbers(list(tasks.ready())) == [1]
    assert numbers(list(tasks.ready())) == []
    tasks.end(intent_of(1))
    assert numbers(list(tasks.ready())) == [2]
    cause = tasks.take_back(is_death=True)

    assert cause is not None
    assert (cause.task.opened_seq, cause.deaths, cause.attempt) == (2, 3, 4)
    assert set(tasks.parked) == {intent_of(2)}
    assert numbers(list(tasks.ready())) == [3]
    tasks.end(intent_of(3))
    assert numbers(list(tasks.ready())) == [11]
    tasks.end(intent_of(11))
    assert numbers(list(tasks.ready())) == []


def test_a_parked_task_can_be_canceled() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    for _ in range(3):
        list(tasks.ready())
        tasks.take_back(is_death=True)

    assert tasks.cancel(intent_of(1)) is None
    assert numbers(list(tasks.canceling())) == [1]
    assert tasks.parked == {}


def test_a_process_that_we_end_makes_nobody_a_suspect() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1))
    for _ in range(9):
        assert len(list(tasks.ready())) == 1
        assert tasks.take_back(is_death=False) is None

    (work,) = tasks.ready()
    assert (work.attempt, work.deaths) == (10, 0)


def test_a_task_begins_with_the_attempt_that_it_comes_with() -> None:
    tasks = backlog(echo=1)
    tasks.add(task(1, attempt=4))

    (work,) = tasks.ready()
    assert work.attempt == 4
