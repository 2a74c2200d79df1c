"""The shop of modules/sdk-rust/examples/shop-flow: an order as a flow, in a kernel in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.sandbox.engine import Sandbox
from aos.values.cbor import decode_record
from tests.sdk.rust.examples import example
from tests.sdk.rust.test_examples import World

ORDER = "shop/order@1"
CHARGE = "shop/card.charge@1"
REFUND = "shop/card.refund@1"
SHIP = "shop/parcel.ship@1"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(example("shop-flow").modules.__getitem__)
    yield sandbox
    sandbox.close()


@pytest.fixture
def shop(sandbox: Sandbox) -> World:
    return World(example("shop-flow"), sandbox)


def place(shop: World) -> None:
    shop.give("shop/Placed@1", {"order_id": "o", "skus": ["tea", "cup"], "cents": 100})
    shop.answer(CHARGE, {"charge": "c-1"})


def order(shop: World, key: str = "o") -> Any:
    return shop.state_of(ORDER, key)


def test_an_order_is_shipped_in_parcels_under_the_paths_of_its_steps(shop: World) -> None:
    place(shop)
    assert [each.issuer_ref for each in shop.open() if each.effect.name == SHIP] == [
        "flow:ship-or-cancel/ship/parcels/cup/ship#1",
        "flow:ship-or-cancel/ship/parcels/tea/ship#1",
    ]

    shop.answer(SHIP, {"parcel": "p-1"}, of="cup")
    assert order(shop)["status"] == "running"
    shop.answer(SHIP, {"parcel": "p-2"}, of="tea")

    assert order(shop)["status"] == "completed"
    assert shop.cell(ORDER, "o").status == "completed"


def test_an_order_that_is_canceled_gets_its_money_back(shop: World) -> None:
    place(shop)
    shop.give("shop/Cancel@1", {"order_id": "o", "reason": "too late"})

    assert order(shop)["status"] == "rolling_back"
    [refund] = [each for each in shop.open() if each.effect.name == REFUND]
    assert refund.issuer_ref == "flow:charge/~undo#1"
    shop.answer(REFUND, {"refund": "r-1"})

    assert order(shop)["status"] == "failed"
    assert shop.cell(ORDER, "o").status == "failed"


def test_an_order_that_is_placed_twice_is_charged_once(shop: World) -> None:
    place(shop)
    shop.give("shop/Placed@1", {"order_id": "o", "skus": ["tea"], "cents": 100})

    assert [each for each in shop.open() if each.effect.name == CHARGE] == []


def fill(shop: World) -> None:
    orders = [{"order_id": each, "skus": [f"tea {each}"], "cents": 100} for each in ("a", "b")]
    shop.give("shop/Filled@1", {"basket_id": "x", "orders": orders})


def basket(shop: World) -> Any:
    return shop.state_of("shop/basket@1", "x")


def test_a_basket_calls_the_flow_of_each_order_and_returns_what_they_returned(shop: World) -> None:
    fill(shop)
    for each in ("a", "b"):
        shop.answer(CHARGE, {"charge": each}, of=f"'{each}'")
        assert basket(shop)["status"] == "running"
        shop.answer(SHIP, {"parcel": f"p-{each}"}, of=f"tea {each}")

    assert basket(shop)["status"] == "completed"
    assert decode_record(basket(shop)["output"]) == [
        {"order_id": each, "parcels": {f"tea {each}": f"p-{each}"}, "missing": []}
        for each in ("a", "b")
    ]


def test_a_basket_whose_order_fails_fails_with_it_as_the_cause(shop: World) -> None:
    fill(shop)
    shop.refuse(CHARGE, "declined", of="'a'")
    shop.answer(CHARGE, {"charge": "b"}, of="'b'")
    shop.answer(SHIP, {"parcel": "p-b"}, of="tea b")

    assert basket(shop)["status"] == "failed"
    error: Any = decode_record(basket(shop)["error"])
    [kind, _, _, _, [cause]] = error
    assert (kind, cause[1]) == ("join", "declined")


def test_a_basket_that_is_canceled_cancels_its_orders(shop: World) -> None:
    fill(shop)
    shop.answer(CHARGE, {"charge": "c-a"}, of="'a'")

    command = {"$tag": "Cancel", "$value": {"rollback": True}}
    shop.give("shop/BasketControl@1", {"instance": "x", "command": command})

    assert basket(shop)["status"] == "cancelled"
    assert order(shop, "a")["status"] == "rolling_back"
    assert order(shop, "b")["status"] == "cancelled"
    shop.answer(REFUND, {"refund": "r"}, of="c-a")
    assert order(shop, "a")["status"] == "cancelled"
