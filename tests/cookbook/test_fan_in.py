"""manifests/cookbook/fan_in: many questions in parallel, one answer when enough is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Effect, InputRefused, World, like
from tests.cookbook.worlds import executors, recipe

REQUEST, ASK = "quote/request@1", "quote/supplier.ask@1"
FOUR = ("north", "south", "east", "west")


def open_work(world: World) -> list[Effect]:
    """All that is in flight, timers too."""
    return [*world.effects(), *world.timers()]


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("fan_in")) as world:
        yield world


def ask(world: World, *suppliers: str, enough: int = 99, quote: str = "q-1") -> None:
    wanted = {
        "quote_id": quote,
        "item": "tea",
        "suppliers": list(suppliers),
        "enough": enough,
        "patience": "1m",
    }
    world.send("quote/Asked@1", wanted)
    world.run()


def offer(world: World, supplier: str, cents: int, quote: str = "q-1") -> None:
    world.effect(ASK, key=quote, params={"supplier": supplier}).answer({"cents": cents})
    world.run()


def closed(world: World) -> list[Any]:
    return world.events("quote/Closed@1")


def test_all_are_asked_in_one_step(world: World) -> None:
    ask(world, *FOUR)

    assert [each.params["supplier"] for each in world.effects(ASK)] == list(FOUR)
    assert closed(world) == []


def test_the_last_answer_joins_whatever_the_order(world: World) -> None:
    ask(world, *FOUR)
    for supplier, cents in (("west", 5), ("north", 3), ("south", 7)):
        offer(world, supplier, cents)
        assert closed(world) == []
    offer(world, "east", 4)

    assert closed(world) == [
        {
            "quote_id": "q-1",
            "best": {"supplier": "north", "cents": 3},
            "offers": 4,
            "failures": 0,
        }
    ]
    assert world.status(REQUEST, "q-1") == "completed"
    assert open_work(world) == [], "the deadline is canceled"


def test_some_may_fail_and_the_others_count(world: World) -> None:
    ask(world, *FOUR)
    world.effect(ASK, params={"supplier": "north"}).fail("closed")
    world.effect(ASK, params={"supplier": "south"}).timeout()
    world.effect(ASK, params={"supplier": "east"}).answer_badly()
    world.run()
    offer(world, "west", 9)

    assert closed(world) == [
        {"quote_id": "q-1", "best": {"supplier": "west", "cents": 9}, "offers": 1, "failures": 3}
    ]
    failures = world.state(REQUEST, "q-1")["failures"]
    assert set(failures) == {"north", "south", "east"}
    assert failures["north"] == "closed"


def test_when_all_fail_there_is_an_end_all_the_same(world: World) -> None:
    ask(world, "north", "south")
    for effect in world.effects(ASK):
        effect.fail("closed")
    world.run()

    assert closed(world) == [{"quote_id": "q-1", "best": None, "offers": 0, "failures": 2}]
    assert world.status(REQUEST, "q-1") == "failed"


def test_enough_is_enough_and_the_others_are_canceled(world: World) -> None:
    ask(world, *FOUR, enough=2)
    offer(world, "north", 8)
    offer(world, "south", 6)

    assert closed(world) == [
        {"quote_id": "q-1", "best": {"supplier": "south", "cents": 6}, "offers": 2, "failures": 0}
    ]
    assert {each.params["supplier"]: each.status for each in world.asked(ASK)} == {
        "north": "ok",
        "south": "ok",
        "east": "canceled",
        "west": "canceled",
    }


def test_at_the_deadline_what_is_there_counts(world: World) -> None:
    ask(world, *FOUR)
    offer(world, "west", 9)
    world.advance("1m")

    assert closed(world) == [
        {"quote_id": "q-1", "best": {"supplier": "west", "cents": 9}, "offers": 1, "failures": 3}
    ]
    assert open_work(world) == []


def test_an_answer_after_the_join_changes_nothing(world: World) -> None:
    ask(world, "north", "south", enough=1)
    late = world.effect(ASK, params={"supplier": "south"})
    offer(world, "north", 8)
    before = world.state(REQUEST, "q-1")

    with pytest.raises(InputRefused):
        late.answer({"cents": 1})
    world.run()

    assert world.state(REQUEST, "q-1") == before
    assert len(closed(world)) == 1


def test_a_request_that_comes_twice_asks_once(world: World) -> None:
    ask(world, "north")
    ask(world, "north", "south")
    offer(world, "north", 8)
    ask(world, "north")

    assert len(world.asked(ASK)) == 1
    assert len(closed(world)) == 1


def test_a_supplier_named_twice_is_asked_once(world: World) -> None:
    ask(world, "north", "south", "north")

    assert [each.params["supplier"] for each in world.effects(ASK)] == ["north", "south"]


def test_without_suppliers_it_ends_at_once(world: World) -> None:
    ask(world)

    assert closed(world) == [{"quote_id": "q-1", "best": None, "offers": 0, "failures": 0}]


def test_requests_side_by_side_do_not_mix(world: World) -> None:
    ask(world, "north", "south", quote="q-1")
    ask(world, "north", "south", quote="q-2")
    offer(world, "north", 1, "q-2")
    offer(world, "north", 2, "q-1")
    offer(world, "south", 3, "q-2")

    assert closed(world) == [
        {"quote_id": "q-2", "best": {"supplier": "north", "cents": 1}, "offers": 2, "failures": 0}
    ]
    assert world.state(REQUEST, "q-1") == like({"offers": {"north": 2}})


def test_a_crash_between_two_answers_loses_none(world: World) -> None:
    ask(world, "north", "south")
    offer(world, "north", 1)
    world.restart()
    offer(world, "south", 2)

    assert closed(world) == [
        {"quote_id": "q-1", "best": {"supplier": "north", "cents": 1}, "offers": 2, "failures": 0}
    ]


def test_with_its_own_executor_a_closed_supplier_is_a_failure() -> None:
    with World(recipe("fan_in"), executors=[executors("fan_in", "suppliers")]) as world:
        ask(world, "north", "closed")

        assert closed(world) == [
            {
                "quote_id": "q-1",
                "best": {"supplier": "north", "cents": 8},
                "offers": 1,
                "failures": 1,
            }
        ]
