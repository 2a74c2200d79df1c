"""The demo's orders: the same for the same seed, and all of them what the manifest takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aos.manifest.load import Loaded
from tests.modules.guests import shop_module

make_orders = shop_module("make_orders")


def lines(**changed: Any) -> list[Any]:
    usual = {
        "count": 1000,
        "seed": 7,
        "customers": 100,
        "hasty": 0.04,
        "repeated": 0.01,
        "cancelled": 0.01,
    }
    return list(make_orders.orders(**(usual | changed)))


def test_the_same_seed_gives_the_same_orders() -> None:
    assert lines() == lines()
    assert lines() != lines(seed=8)


def test_every_line_is_an_event_of_the_manifest(orders: Loaded) -> None:
    for line in lines():
        orders.effective.schemas[line["schema"]].from_json_object(line["value"])
        assert orders.effective.routes(line["schema"])


def test_each_order_is_there_once_and_some_come_again_or_are_taken_back() -> None:
    made = lines()

    ids = Counter(line["submission_id"] for line in made)
    assert set(ids.values()) == {1}
    placed = [line for line in made if line["schema"] == "shop/OrderPlaced@1"]
    assert len({line["value"]["order_id"] for line in placed}) == 1000
    assert 1000 < len(placed) < 1030
    assert 0 < len(made) - len(placed) < 30
    assert len({line["value"]["customer_id"] for line in placed}) > 90


def test_events_about_an_order_come_after_the_order() -> None:
    seen: set[str] = set()
    for line in lines(repeated=0.5, cancelled=0.5):
        order_id = line["value"]["order_id"]
        if line["submission_id"] == order_id:
            seen.add(order_id)
        assert order_id in seen


def test_without_shares_there_are_only_the_orders() -> None:
    assert len(lines(hasty=0, repeated=0, cancelled=0)) == 1000
