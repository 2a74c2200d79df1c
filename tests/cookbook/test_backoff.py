"""manifests/cookbook/backoff: tried again, ever later, until it is there, gone, or too late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from aos.testing import NEVER, Effect, Fail, Timeout, World, in_turn, like
from tests.cookbook.worlds import executors, recipe

FETCHING, FETCH = "report/fetching@1", "report/fetch@1"
SECOND_NS = 1_000_000_000
BUSY = Fail("busy", retryable=True)


def open_work(world: World) -> list[Effect]:
    """All that is in flight, timers too."""
    return [*world.effects(), *world.timers()]


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("backoff")) as world:
        yield world


def want(world: World, patience: str = "10m", report: str = "r-1") -> None:
    wanted = {"report_id": report, "name": "sales", "patience": patience}
    world.send("report/Wanted@1", wanted)
    world.run()


def watched(world: World, *answers: object) -> list[int]:
    """Have the fetches answered in turn; return a list that fills with when each was asked for."""
    times: list[int] = []
    left = list(answers)

    def answer(_params: Any) -> object:
        times.append(world.now_ns)
        return left.pop(0) if len(left) > 1 else left[0]

    world.on(FETCH, answer)
    return times


def test_an_answer_at_once_needs_no_pause(world: World) -> None:
    world.on(FETCH, {"text": "all sold"})
    want(world)

    assert world.events("report/Ready@1") == [{"report_id": "r-1", "text": "all sold"}]
    assert world.status(FETCHING, "r-1") == "completed"
    assert open_work(world) == [], "the deadline is canceled: a report that is done leaves no timer"


def test_each_pause_is_twice_the_one_before_up_to_a_minute(world: World) -> None:
    """A quarter of it at most is left out by chance, so that many cells do not ask as one."""
    times = watched(world, BUSY)
    want(world, patience="1h")
    world.advance("10m")

    pauses = [(after - before) / SECOND_NS for before, after in pairwise(times)]
    for number, pause in enumerate(pauses):
        whole = min(2**number, 60)
        assert 0.75 * whole <= pause <= whole, f"pause {number + 1} took {pause} s"
    assert len(pauses) > 10


def test_the_pauses_of_two_cells_differ_and_are_the_same_when_replayed() -> None:
    """Chance comes from the context, so it is as deterministic as everything else."""
    with World(recipe("backoff")) as world:
        times = watched(world, BUSY)
        want(world, report="r-1")
        want(world, report="r-2")
        world.advance("1s")

    assert len(times) == 4
    assert times[2] != times[3]


def test_the_number_of_the_attempt_is_in_the_state_and_in_the_params(world: World) -> None:
    world.on(FETCH, in_turn(BUSY, Timeout(), BUSY, {"text": "there"}))
    want(world)
    world.finish(within="1h")

    assert [each.params["attempt"] for each in world.asked(FETCH)] == [1, 2, 3, 4]
    assert world.state(FETCHING, "r-1") == like({"phase": {"Ready": "there"}, "attempt": 4})


def test_a_permanent_error_is_not_retried(world: World) -> None:
    world.on(FETCH, Fail("not_found"))
    want(world)

    assert len(world.asked(FETCH)) == 1
    assert world.events("report/GivenUp@1") == [
        {"report_id": "r-1", "why": "not_found", "attempts": 1}
    ]
    assert open_work(world) == []


def test_an_answer_that_is_none_is_tried_again(world: World) -> None:
    """A payload that does not fit the receipt schema comes as Rejected, not as a failed cell."""
    want(world)
    world.effect(FETCH).answer_badly()
    world.run()
    world.advance("1s")

    assert [each.params["attempt"] for each in world.effects(FETCH)] == [2]


@pytest.mark.parametrize(("answer", "waits_for"), [(BUSY, "pause"), (NEVER, "answer")])
def test_the_deadline_ends_it_wherever_it_is(world: World, answer: object, waits_for: str) -> None:
    world.on(FETCH, answer)
    want(world, patience="5s")
    world.advance("4999ms")
    assert world.status(FETCHING, "r-1") == "waiting"

    world.advance("1ms")

    assert world.state(FETCHING, "r-1") == like({"phase": {"GivenUp": "too late"}}), waits_for
    assert [each["why"] for each in world.events("report/GivenUp@1")] == ["too late"]
    assert world.status(FETCHING, "r-1") == "completed"
    assert open_work(world) == [], "its open effects and timers are canceled"


def test_an_answer_that_comes_with_the_deadline_loses_or_wins_but_never_both(world: World) -> None:
    """Journal order decides; the handle of whatever lost is idle and matches nothing."""
    want(world, patience="5s")
    world.effect(FETCH).answer({"text": "just in time"}, after="5s")
    world.advance("5s")

    ready, given_up = world.events("report/Ready@1"), world.events("report/GivenUp@1")
    assert len(ready) + len(given_up) == 1
    assert open_work(world) == []


def test_thirty_days_of_patience_are_tested_in_a_moment(world: World) -> None:
    want(world, patience="30d")
    world.effect(FETCH).answer({"text": "at last"}, after="29d23h")
    world.advance("30d")

    assert world.events("report/Ready@1") == [{"report_id": "r-1", "text": "at last"}]
    assert world.events("report/GivenUp@1") == []


@pytest.mark.parametrize(
    "interrupt",
    [lambda _world: None, lambda world: world.restart()],
    ids=["without a crash", "with one in the pause"],
)
def test_a_pause_survives_a_crash(world: World, interrupt: Callable[[World], None]) -> None:
    world.on(FETCH, in_turn(BUSY, {"text": "there"}))
    want(world)
    interrupt(world)
    world.advance("1s")

    assert world.status(FETCHING, "r-1") == "completed"


def test_a_report_that_is_wanted_twice_is_fetched_once(world: World) -> None:
    want(world)
    want(world)
    fetches: list[Effect] = world.asked(FETCH)
    fetches[0].answer({"text": "x"})
    world.run()
    want(world)

    assert len(world.asked(FETCH)) == 1
    assert len(world.events("report/Ready@1")) == 1


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("ready-after-3", {"Ready": "the report, fetched by attempt 3"}),
        ("gone", {"GivenUp": "not_found"}),
        ("busy", {"GivenUp": "too late"}),
    ],
)
def test_with_its_own_executor_a_name_decides_how_it_ends(name: str, phase: object) -> None:
    with World(recipe("backoff"), executors=[executors("backoff", "source")]) as world:
        world.send("report/Wanted@1", {"report_id": "r-1", "name": name, "patience": "10s"})
        world.finish()

        assert world.state(FETCHING, "r-1") == like({"phase": phase})
