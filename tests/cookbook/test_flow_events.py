"""manifests/cookbook/flow_events: a reducer in AssemblyScript and a flow in Rust, by events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.testing import Flow, World, everywhere
from tests.cookbook.worlds import executors, recipe

DESK, DELIVERY = "parcel/desk@1", "parcel/delivery@1"
DRIVE = "parcel/van.drive@1"
ARRIVED = {"van": "van-1"}


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("flow_events")) as world:
        yield world


def buy(world: World, order: str = "o-1", city: str = "Lisbon") -> None:
    world.send("parcel/Bought@1", {"order_id": order, "city": city})
    world.run()


def move(world: World, city: str, order: str = "o-1") -> None:
    world.send("parcel/Moved@1", {"order_id": order, "city": city})
    world.run()


def arrive(world: World, city: str) -> None:
    world.effect(DRIVE, params={"city": city}).answer(ARRIVED)
    world.run()


def phase(tag: str, text: str) -> dict[str, Any]:
    return {"phase": {"$tag": tag, "$value": text}}


def flow(world: World, order: str = "o-1") -> Flow:
    found = world.flow(DELIVERY, order)
    assert found is not None
    return found


def test_the_desk_starts_the_flow_and_hears_that_it_has_delivered(world: World) -> None:
    buy(world)
    assert world.state(DESK, "o-1") == phase("Sent", "Lisbon")
    arrive(world, "Lisbon")
    world.advance("2h")

    assert world.state(DESK, "o-1") == phase("Delivered", "Lisbon")
    assert world.status(DESK, "o-1") == "completed"
    assert flow(world).status == "completed"


def test_a_message_while_the_flow_listens_redirects_the_parcel(world: World) -> None:
    buy(world)
    arrive(world, "Lisbon")
    world.advance("119m")
    move(world, "Porto")
    arrive(world, "Porto")
    world.advance("2h")

    assert world.state(DESK, "o-1") == phase("Delivered", "Porto")


def test_messages_that_come_before_the_flow_listens_are_heard_in_order(world: World) -> None:
    buy(world)
    for city in ("Porto", "Faro"):
        move(world, city)
    assert [value["city"] for _, value in flow(world).inbox] == ["Porto", "Faro"]
    for city in ("Lisbon", "Porto", "Faro"):
        arrive(world, city)
    world.advance("2h")

    assert world.state(DESK, "o-1") == phase("Delivered", "Faro")


def test_the_desk_hears_that_a_flow_has_failed_as_an_event(world: World) -> None:
    buy(world)
    world.effect(DRIVE).fail("no_road")
    world.run()

    assert world.state(DESK, "o-1") == phase("Lost", "no_road")
    assert flow(world).status == "completed"


def test_a_move_that_comes_too_late_does_not_reach_the_flow(world: World) -> None:
    buy(world)
    arrive(world, "Lisbon")
    world.advance("2h")
    move(world, "Porto")

    assert world.events("parcel/Redirect@1") == []
    assert world.state(DESK, "o-1") == phase("Delivered", "Lisbon")


def test_a_purchase_that_comes_twice_starts_one_flow(world: World) -> None:
    buy(world)
    buy(world)

    assert len(world.events("parcel/Deliver@1")) == 1
    assert len(world.effects(DRIVE)) == 1


def test_orders_side_by_side_do_not_mix(world: World) -> None:
    buy(world, "o-1")
    buy(world, "o-2")
    move(world, "Porto", "o-2")
    for order in ("o-1", "o-2"):
        world.effect(DRIVE, key=order).answer(ARRIVED)
    world.run()

    assert [(each.key, each.params["city"]) for each in world.effects(DRIVE)] == [("o-2", "Porto")]


def test_a_crash_at_any_point_changes_nothing() -> None:
    def story(world: World) -> None:
        buy(world)
        move(world, "Porto")
        arrive(world, "Lisbon")
        arrive(world, "Porto")
        world.advance("2h")
        assert world.state(DESK, "o-1") == phase("Delivered", "Porto")

    assert everywhere(story, recipe("flow_events")) >= 8


def test_with_its_own_executors_a_city_decides_how_it_ends() -> None:
    with World(recipe("flow_events"), executors=[executors("flow_events", "vans")]) as world:
        buy(world, "o-1", "Lisbon")
        buy(world, "o-2", "Atlantis")
        world.advance("2h")

        assert world.state(DESK, "o-1") == phase("Delivered", "Lisbon")
        assert world.state(DESK, "o-2") == phase("Lost", "no_road")
