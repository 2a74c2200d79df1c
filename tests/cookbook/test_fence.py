"""manifests/cookbook/fence: a terminal state that answers duplicates, and does nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Fail, World, answered, like, step
from tests.cookbook.worlds import executors, recipe

SALE, CHARGE = "seat/sale@1", "seat/card.charge@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("fence")) as world:
        yield world


def want(
    world: World, request: str, buyer: str = "ann", *, cents: int = 900, id: str | None = None
) -> None:
    wanted = {"seat": "7a", "request": request, "buyer": buyer, "cents": cents}
    world.send("seat/Wanted@1", wanted, id=id)
    world.run()


def verdicts(world: World) -> list[tuple[str, str]]:
    return [(each["request"], each["verdict"]["$tag"]) for each in world.events("seat/Answered@1")]


def charge(world: World) -> None:
    world.effect(CHARGE).answer({"reference": "c-1"})
    world.run()


def test_a_seat_is_sold_once_and_the_sale_is_the_end(world: World) -> None:
    want(world, "r-1")
    charge(world)

    assert verdicts(world) == [("r-1", "Sold")]
    assert world.status(SALE, "7a") == "completed"


def test_a_request_that_comes_again_while_the_card_is_charged_waits_for_the_same_answer(
    world: World,
) -> None:
    want(world, "r-1")
    want(world, "r-1")
    assert len(world.asked(CHARGE)) == 1
    assert verdicts(world) == []

    charge(world)
    assert verdicts(world) == [("r-1", "Sold")]


def test_a_request_that_comes_again_after_the_sale_gets_the_answer_again(world: World) -> None:
    """Its first answer may have been lost. The card is not charged again."""
    want(world, "r-1")
    charge(world)
    want(world, "r-1")
    want(world, "r-1")

    assert verdicts(world) == [("r-1", "Sold")] * 3
    assert len(world.asked(CHARGE)) == 1
    assert world.state(SALE, "7a") == like({"repeats": 2})
    assert world.status(SALE, "7a") == "completed", "a terminal state answers and stays terminal"


def test_the_same_buyer_under_another_request_is_another_buyer(world: World) -> None:
    """Requests are duplicates if the sender repeats the id, not if they look alike."""
    want(world, "r-1")
    charge(world)
    want(world, "r-2")

    assert verdicts(world) == [("r-1", "Sold"), ("r-2", "Taken")]


def test_a_buyer_who_comes_while_another_pays_gets_the_verdict_taken(world: World) -> None:
    want(world, "r-1", "ann")
    want(world, "r-2", "bob")

    assert verdicts(world) == [("r-2", "Taken")]
    assert len(world.asked(CHARGE)) == 1


def test_a_declined_card_frees_the_seat_and_its_request_stays_declined(world: World) -> None:
    world.on(CHARGE, Fail("declined"))
    want(world, "r-1", "broke")
    want(world, "r-1", "broke")
    assert verdicts(world) == [("r-1", "Declined")] * 2
    assert len(world.asked(CHARGE)) == 1

    world.on(CHARGE, {"reference": "c-2"})
    want(world, "r-2", "bob")
    assert verdicts(world)[2:] == [("r-2", "Sold")]
    assert len({each.idempotency_key for each in world.asked(CHARGE)}) == 2


def test_the_memory_of_declined_requests_is_bounded(world: World) -> None:
    """A fence that remembers for ever grows for ever."""
    world.on(CHARGE, Fail("declined"))
    for number in range(20):
        want(world, f"r-{number}", "broke")

    assert world.state(SALE, "7a")["declined"] == [f"r-{number}" for number in range(4, 20)]


def test_a_charge_with_an_unknown_outcome_blocks_all_other_buyers(world: World) -> None:
    want(world, "r-1")
    world.effect(CHARGE).timeout()
    world.run()
    want(world, "r-1")
    want(world, "r-2", "bob")

    assert verdicts(world) == [("r-1", "Unclear"), ("r-1", "Unclear"), ("r-2", "Taken")]
    assert world.status(SALE, "7a") == "failed"


def test_a_receipt_that_does_not_fit_is_no_clear_answer_either(world: World) -> None:
    want(world, "r-1")
    world.effect(CHARGE).answer_badly()
    world.run()

    assert verdicts(world) == [("r-1", "Unclear")]
    assert world.faults() == []


def test_an_event_under_a_known_submission_id_never_reaches_the_cell(world: World) -> None:
    """The outer fence: the same id with the same event is admitted once."""
    want(world, "r-1", id="http-42")
    want(world, "r-1", id="http-42")

    assert world.state(SALE, "7a") == like({"repeats": 0})


def test_a_crash_changes_no_answer(world: World) -> None:
    want(world, "r-1")
    world.restart()
    charge(world)
    world.restart()
    want(world, "r-1")

    assert verdicts(world) == [("r-1", "Sold")] * 2
    assert len(world.asked(CHARGE)) == 1


SOLD: dict[str, Any] = {
    "phase": {"Sold": {"request": "r-1", "buyer": "ann", "cents": 900}},
    "charge": None,
    "attempt": 1,
    "declined": [],
    "repeats": 0,
}


@pytest.mark.parametrize(
    ("request_id", "verdict"), [("r-1", "Sold"), ("r-9", "Taken")], ids=["its own", "another"]
)
def test_transition_of_a_sold_seat_only_answers(request_id: str, verdict: str) -> None:
    """(state, event) -> (state, events, effects), without a world."""
    wanted = {"seat": "7a", "request": request_id, "buyer": "ann", "cents": 900}
    found = step(recipe("fence"), SALE, state=SOLD, event=("seat/Wanted@1", wanted))

    assert [(schema, value["verdict"]) for schema, value in found.events] == [
        ("seat/Answered@1", {"$tag": verdict})
    ]
    assert found.effects == ()
    assert found.fault is None


def test_transition_of_a_sold_seat_ignores_a_receipt_that_is_not_its_own() -> None:
    late = answered(
        CHARGE,
        {"reference": "c-1"},
        params={"seat": "7a", "buyer": "ann", "cents": 900},
        issuer_ref="of another time",
    )
    found = step(recipe("fence"), SALE, state=SOLD, event=late, key="7a")

    assert found.state == like(SOLD)
    assert found.events == ()
    assert found.fault is None


def test_with_its_own_executor_one_buyer_has_no_money() -> None:
    with World(recipe("fence"), executors=[executors("fence", "seats")]) as world:
        want(world, "r-1", "broke")
        want(world, "r-2", "bob")
        want(world, "r-2", "bob")

        assert verdicts(world) == [("r-1", "Declined"), ("r-2", "Sold"), ("r-2", "Sold")]
