"""manifests/cookbook/choreography: three workflows that know each other's events, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.changed_manifest import changed_manifest

from aos.testing import Fail, World, in_turn, like
from tests.cookbook.worlds import executors, recipe

ORDER, PAYMENT, DELIVERY = "market/order@1", "market/payment@1", "market/delivery@1"
CHARGE, REFUND, SEND = "market/card.charge@1", "market/card.refund@1", "market/parcel.send@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("choreography")) as world:
        yield world


def place(world: World, order: str = "o-1", *, cents: int = 500) -> None:
    placed = {"order_id": order, "cents": cents, "address": "Elm Street 1"}
    world.send("market/OrderPlaced@1", placed)
    world.run()


def told(world: World, order: str = "o-1") -> list[str]:
    """Schemas of the events emitted about one order, in their order."""
    return [
        each.schema.removeprefix("market/").removesuffix("@1")
        for each in world.emitted()
        if each.value["order_id"] == order
    ]


def statuses(world: World, order: str = "o-1") -> list[str | None]:
    return [world.status(workflow, order) for workflow in (ORDER, PAYMENT, DELIVERY)]


def test_one_event_reaches_all_who_subscribed(world: World) -> None:
    placed = {"order_id": "o-1", "cents": 500, "address": "Elm Street 1"}
    sent = world.send("market/OrderPlaced@1", placed)

    assert sent.to == ((ORDER, "o-1"), (PAYMENT, "o-1"), (DELIVERY, "o-1"))


def test_the_parcel_leaves_once_it_is_paid(world: World) -> None:
    place(world)
    assert [each.name for each in world.effects()] == [CHARGE]

    world.effect(CHARGE).answer({"reference": "c"})
    world.run()
    assert [each.name for each in world.effects()] == [SEND]

    world.effect(SEND).answer({"tracking": "p-1"})
    world.run()
    assert told(world) == ["PaymentTaken", "ParcelSent"]
    assert world.state(ORDER, "o-1") == like({"phase": {"Sent": "p-1"}})


def test_a_declined_card_ends_it_and_delivery_never_hears_of_it(world: World) -> None:
    world.on(CHARGE, Fail("declined"))
    place(world)

    assert told(world) == ["PaymentRefused"]
    assert world.state(ORDER, "o-1") == like({"phase": {"Unpaid": "declined"}})
    assert world.asked(SEND) == []


def test_a_parcel_that_cannot_be_sent_brings_the_money_back(world: World) -> None:
    """No workflow is in charge: delivery reports its failure, and payment refunds by itself."""
    world.on(CHARGE, {"reference": "c"})
    world.on(SEND, Fail("no_such_place"))
    world.on(REFUND, {"reference": "r"})
    place(world)

    assert told(world) == ["PaymentTaken", "ParcelRefused", "PaymentReturned"]
    assert world.state(ORDER, "o-1") == like({"phase": {"Returned": "no_such_place"}})
    assert world.asked(REFUND)[0].params == {"order_id": "o-1", "cents": 500}


def test_without_a_clear_answer_the_same_request_is_repeated_under_the_same_key(
    world: World,
) -> None:
    world.on(CHARGE, in_turn(Fail("transport", retryable=True), {"reference": "c"}))
    place(world)
    assert told(world) == []

    world.advance("5s")

    assert len({each.idempotency_key for each in world.asked(CHARGE)}) == 1
    assert told(world) == ["PaymentTaken"]


def test_the_two_facts_that_delivery_joins_may_come_in_any_order() -> None:
    """An address and a payment: the later event completes the pair."""
    placed = ("market/OrderPlaced@1", {"order_id": "o-1", "cents": 5, "address": "Elm Street 1"})
    taken = ("market/PaymentTaken@1", {"order_id": "o-1", "cents": 5, "reference": "c"})
    for events in ((placed, taken), (taken, placed)):
        with World(changed_manifest(recipe("choreography"), is_open=True)) as world:
            world.on(CHARGE, Fail("declined"))  # its own word counts for nothing here
            for schema, value in events:
                world.send(schema, value)
                world.run()

            assert [each.params for each in world.effects(SEND)] == [
                {"order_id": "o-1", "address": "Elm Street 1"}
            ]


def test_an_order_placed_twice_is_charged_and_sent_once(world: World) -> None:
    world.on(CHARGE, {"reference": "c"})
    world.on(SEND, {"tracking": "p"})
    place(world)
    place(world)

    assert [each.name for each in world.asked()] == [CHARGE, SEND]
    assert told(world) == ["PaymentTaken", "ParcelSent"]


def test_orders_side_by_side_do_not_mix(world: World) -> None:
    """No cross-delivery: every event and every receipt goes to the cells of its own order."""
    for order in ("o-1", "o-2", "o-3"):
        place(world, order)
    world.on(SEND, lambda params: {"tracking": f"p of {params['order_id']}"})
    world.effect(CHARGE, key="o-3").answer({"reference": "c3"})
    world.effect(CHARGE, key="o-1").fail("declined")
    world.run()
    world.effect(CHARGE, key="o-2").answer({"reference": "c2"})
    world.run()

    assert [world.state(ORDER, order)["phase"] for order in ("o-1", "o-2", "o-3")] == [
        {"$tag": "Unpaid", "$value": "declined"},
        {"$tag": "Sent", "$value": "p of o-2"},
        {"$tag": "Sent", "$value": "p of o-3"},
    ]


def test_one_workflow_that_fails_leaves_the_others_alone(world: World) -> None:
    """A refund that is refused is payment's own trouble."""
    world.on(CHARGE, {"reference": "c"})
    world.on(SEND, Fail("no_such_place"))
    world.on(REFUND, Fail("no_such_account"))
    place(world)

    assert world.state(PAYMENT, "o-1") == like({"phase": {"Stuck": "no_such_account"}})
    assert statuses(world) == ["running", "failed", "completed"]


def test_a_crash_between_two_events_loses_none(world: World) -> None:
    place(world)
    world.effect(CHARGE).answer({"reference": "c"})
    world.run()
    world.restart()
    world.effect(SEND).answer({"tracking": "p"})
    world.run()

    assert told(world) == ["PaymentTaken", "ParcelSent"]
    assert statuses(world) == ["completed"] * 3


@pytest.mark.parametrize(
    ("cents", "address", "phase"),
    [
        (500, "Elm Street 1", "Sent"),
        (500_000, "Elm Street 1", "Unpaid"),
        (500, "Atlantis", "Returned"),
    ],
)
def test_with_their_own_executors_price_and_address_decide(
    cents: int, address: str, phase: str
) -> None:
    given = [executors("choreography", "bank"), executors("choreography", "carrier")]
    with World(recipe("choreography"), executors=given) as world:
        world.send("market/OrderPlaced@1", {"order_id": "o-1", "cents": cents, "address": address})
        world.run()

        assert world.state(ORDER, "o-1")["phase"]["$tag"] == phase
