"""The flow of modules/sdk-rust/examples/shop-flow, seen by the tools for its author and
operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aos.flow.declaration import declared_flow, declared_flows
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.testing import Fail, World, everywhere, in_turn
from tests.cli.shell import here, in_silence
from tests.copies import copied
from tests.sdk.rust.examples import example

ORDER, BASKET = "shop/order@1", "shop/basket@1"
CHARGE, REFUND, SHIP = "shop/card.charge@1", "shop/card.refund@1", "shop/parcel.ship@1"
PLACED: Any = {"order_id": "o-1", "skus": ["cup", "tea"], "cents": 450}


def test_a_manifest_alone_says_what_a_flow_is_called_with() -> None:
    """FL-80"""
    manifest = example("shop-flow").effective
    order, basket = declared_flow(manifest, ORDER), declared_flow(manifest, BASKET)

    assert set(declared_flows(manifest)) == {ORDER, BASKET}
    assert order is not None
    assert basket is not None
    assert (order.start.name, order.start_field) == ("shop/Placed@1", "order_id")
    assert (order.control.name, order.call) == ("shop/OrderControl@1", "shop/OrderCall@1")
    assert order.messages == {"shop/Cancel@1": "order_id"}
    assert (basket.start.name, basket.returned) == ("shop/Filled@1", "shop/BasketReturn@1")


def charged(world: World) -> None:
    world.on(CHARGE, {"charge": "c-1"})
    world.on(REFUND, {"refund": "r-1"})
    world.send("shop/Placed@1", PLACED)
    world.run()


def test_a_flow_is_seen_at_its_operations_and_with_its_output() -> None:
    """T-35"""
    with World(example("shop-flow")) as world:
        charged(world)
        flow = world.flow("order", "o-1")
        assert flow is not None
        assert (flow.status, flow.view) == (
            "running", {"$tag": "Shipping", "$value": {"parcels": 2}},
        )  # fmt: skip
        assert flow.operation("charge").value == {"charge": "c-1"}
        assert [(each.path, each.kind) for each in flow.waits] == [
            ("ship-or-cancel/ship/parcels/cup/ship", "effect"),
            ("ship-or-cancel/ship/parcels/tea/ship", "effect"),
            ("ship-or-cancel/cancel/asked", "message"),
        ]
        assert [each.path for each in flow.compensations] == ["charge"]

        for number, effect in enumerate(world.effects(SHIP)):
            effect.answer({"parcel": f"p-{number}"})
        world.run()
        flow = world.flow("order", "o-1")
        assert flow is not None
        assert (flow.status, flow.output["parcels"]) == ("completed", {"cup": "p-0", "tea": "p-1"})
        assert (flow.operations, flow.waits) == ((), ())


def story(world: World) -> None:
    """The charge is tried three times; one parcel is late; the customer cancels in time."""
    world.on(CHARGE, in_turn(Fail("busy", retryable=True), Fail("busy", retryable=True),
                             then={"charge": "c-1"}))  # fmt: skip
    world.on(REFUND, {"refund": "r-1"})
    world.send("shop/Placed@1", PLACED)
    world.advance("1m")
    world.effects(SHIP)[0].answer({"parcel": "p-0"}, after="2h")
    world.advance("3h")
    world.send("shop/Cancel@1", {"order_id": "o-1", "reason": "too late"})
    world.finish()
    flow = world.flow("order", "o-1")
    assert flow is not None
    assert (flow.status, [each.state for each in flow.compensations]) == ("failed", ["done"])


def test_a_crash_after_any_step_changes_nothing() -> None:
    """T-36"""
    assert everywhere(story, example("shop-flow")) > 8


# On disk


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world in which ``o-1`` is charged and waits for its parcels."""
    path = tmp_path_factory.mktemp("shop-flow") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(example("shop-flow"))
    here("flow", "start", "order", json.dumps(PLACED), "--world", path)
    in_silence("run", "--until-idle", "--world", path)
    settle(path, CHARGE, {"charge": "c-1"})
    return path


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")


def settle(world: Path, effect: str, value: Any, key: str = "") -> None:
    """Answer the open effects of this name by an operator, and run."""
    rows = here("inspect", "intents", "--effect", effect, "--json", "--world", world).json
    for row in rows["intents"]:
        if key in row["issuer_ref"]:
            here("effects", "settle", row["intent"], "--ok", json.dumps(value), "--world", world)
    in_silence("run", "--until-waiting", "--world", world)


def shown(world: Path, *words: str) -> Any:
    return here("flow", "show", "order", "o-1", "--json", *words, "--world", world).json


def test_a_flow_is_signalled_and_rolls_back(world: Path) -> None:
    """C-71, C-75"""
    sent = here("flow", "signal", "order", "o-1", "Cancel", '{"reason": "late"}', "--world", world)
    in_silence("run", "--until-waiting", "--world", world)
    rolling = shown(world)
    settle(world, REFUND, {"refund": "r-1"})
    found = shown(world)

    past = {each["path"]: each for each in flat(shown(world, "--history")["operations"])}

    assert sent.code == 0
    assert past["ship-or-cancel/ship/parcels/cup/ship"]["state"] == "canceled"
    assert rolling["status"] == "rolling_back"
    assert [(each["path"], each["kind"]) for each in rolling["waits"]] == [
        ("charge/~undo", "effect")
    ]
    assert (found["status"], found["error"]["code"]) == ("failed", "canceled")
    assert [each["state"] for each in found["compensations"]] == ["done"]


def test_a_flow_is_cancelled_and_undone(world: Path) -> None:
    """C-72"""
    assert here("flow", "cancel", "order", "o-1", "--world", world).code == 0
    in_silence("run", "--until-waiting", "--world", world)
    settle(world, REFUND, {"refund": "r-1"})

    found = shown(world)
    assert (found["status"], found["error"]["kind"]) == ("canceled", "canceled")
    again = here("flow", "cancel", "order", "o-1", "--world", world)
    assert again == (0, "shop/order@1 o-1 is canceled already\n", "")


def test_the_operations_of_a_flow_that_ended_are_read_from_the_journal(world: Path) -> None:
    """C-75a, A-69b"""
    settle(world, SHIP, {"parcel": "p-1"}, key="tea")
    settle(world, SHIP, {"parcel": "p-2"}, key="cup")
    now, past = shown(world), shown(world, "--history")

    assert (now["status"], now["operations"]) == ("completed", [])
    assert now["output"]["parcels"] == {"cup": "p-2", "tea": "p-1"}
    paths = {each["path"]: each for each in flat(past["operations"])}
    assert paths["charge"]["value"] == {"charge": "c-1"}
    ship = paths["ship-or-cancel/ship/parcels/tea/ship"]
    assert (ship["state"], ship["value"], ship["is_kept"]) == (
        "completed",
        {"parcel": "p-1"},
        False,
    )
    asked = paths["ship-or-cancel/cancel/asked"]
    assert (asked["state"], asked["is_kept"]) == (None, False)


def flat(operations: list[Any]) -> list[Any]:
    return [each for op in operations for each in (op, *flat(op["children"]))]
