"""manifests/cookbook/neighbours: a shop and a bank in two worlds. ``test_readme.py`` runs both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cbor2
import pytest

from aos.testing import Effect, World, like
from tests.cookbook.worlds import recipe

ORDER, ACCOUNT, SEND = "shop/order@1", "bank/account@1", "sys/world.send@1"
SENT = {"world": f"blake3:{'ab' * 32}", "seq": 7, "duplicate": False}


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("neighbours")) as world:
        yield world


def order(world: World, name: str = "o-1", cents: int = 300) -> None:
    world.send("shop/Ordered@1", {"order_id": name, "customer": "ann", "cents": cents})
    world.run()


def charge(world: World, name: str = "o-1", cents: int = 300) -> None:
    fields = {"customer": "ann", "order_id": name, "cents": cents, "answer_to": "shop"}
    world.send("bank/Charge@1", fields)
    world.run()


def deposit(world: World, cents: int) -> None:
    world.send("bank/Deposited@1", {"customer": "ann", "cents": cents})
    world.run()


def message(effect: Effect) -> tuple[str, str, Any]:
    """The target, the schema and the event of a delivery."""
    params = effect.params
    return params["to"], params["schema"], cbor2.loads(params["value"])


def test_an_order_asks_the_bank_and_tells_it_its_own_world(world: World) -> None:
    order(world)
    fields = {"customer": "ann", "order_id": "o-1", "cents": 300, "answer_to": "shop"}
    assert message(world.effect(SEND)) == ("bank", "bank/Charge@1", fields)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_answer_counts_before_and_after_the_receipt(world: World, is_first: bool) -> None:
    order(world)
    question = world.effect(SEND)
    answer = {"order_id": "o-1", "is_paid": True}
    if is_first:
        world.send("shop/Charged@1", answer)
        world.run()
        question.answer(SENT)
    else:
        question.answer(SENT)
        world.run()
        assert world.state(ORDER, "o-1") == like({"phase": {"$tag": "Asking"}})
        world.send("shop/Charged@1", answer)
    world.run()

    assert world.state(ORDER, "o-1") == like({"phase": {"$tag": "Paid"}})
    assert world.status(ORDER, "o-1") == "completed"


def test_an_order_that_the_bank_never_gets_fails_with_the_reason(world: World) -> None:
    order(world)
    world.effect(SEND).fail("world_unknown")
    world.run()
    assert world.state(ORDER, "o-1") == like({"phase": {"Unasked": "world_unknown"}})
    assert world.status(ORDER, "o-1") == "failed"


def test_an_account_pays_as_long_as_there_is_money(world: World) -> None:
    deposit(world, 500)
    charge(world, "o-1")
    charge(world, "o-2")

    answers = [message(effect) for effect in world.effects(SEND)]
    assert answers == [
        ("shop", "shop/Charged@1", {"order_id": "o-1", "is_paid": True}),
        ("shop", "shop/Charged@1", {"order_id": "o-2", "is_paid": False}),
    ]
    for effect in world.effects(SEND):
        effect.answer(SENT)
    world.run()
    assert world.state(ACCOUNT, "ann") == like({"cents": 200, "answers": []})


def test_an_answer_that_is_refused_gives_the_money_back(world: World) -> None:
    deposit(world, 500)
    charge(world)
    world.effect(SEND).fail("event_refused", "closed")
    world.run()
    state = {"cents": 500, "answers": [], "given_back": ["o-1"], "unclear": []}
    assert world.state(ACCOUNT, "ann") == like(state)


def test_an_answer_that_may_have_arrived_is_left_to_a_person(world: World) -> None:
    deposit(world, 500)
    charge(world)
    world.effect(SEND).fail("delivery_too_old")
    world.run()
    state = {"cents": 200, "answers": [], "given_back": [], "unclear": ["o-1"]}
    assert world.state(ACCOUNT, "ann") == like(state)
