"""AIR out of Rust types is the AIR that was meant (SR-20 to SR-24)."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.modules.guests import ROOT
from tests.sdk.rust.examples import SDK, example, read_nodes

CONFORMANCE = ROOT / "modules/conformance"


def written() -> list[dict[str, Any]]:
    """The nodes of modules/conformance/air, which are written by hand."""
    return [
        node
        for path in (CONFORMANCE / "air").glob("*.air.json")
        for node in json.loads(path.read_text())
    ]


def by_name(nodes: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Keep comments on types, which define handles; drop those of nodes."""
    return {
        node["name"]: {key: value for key, value in node.items() if key != "$comment"}
        for node in nodes
        if node["$kind"] == kind
    }


def test_the_schemas_of_the_conformance_module_are_those_that_are_written_by_hand() -> None:
    assert by_name(read_nodes("conformance/rust/conformance"), "defschema") == by_name(
        written(), "defschema"
    )


def test_its_workflows_and_effects_are_too() -> None:
    generated = read_nodes("conformance/rust/conformance")

    assert by_name(generated, "defeffect") == by_name(written(), "defeffect")
    meant = by_name(written(), "defworkflow")
    assert by_name(generated, "defworkflow") == {
        # With logging every workflow without annotations has lines (SR-34).
        name: {"annotations": "aos/Log@1"} | node
        for name, node in meant.items()
    }


def test_its_subscriptions_are_too_in_the_order_of_each_workflow() -> None:
    [manifest] = [node for node in written() if node["$kind"] == "manifest"]
    generated = [
        {key: value for key, value in node.items() if key != "$kind"}
        for node in read_nodes("conformance/rust/conformance")
        if node["$kind"] == "subscription"
    ]

    def of(workflow: str, routes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [route for route in routes if route["workflow"] == workflow]

    meant = manifest["routing"]["subscriptions"]
    assert len(generated) == len(meant)
    for workflow in {route["workflow"] for route in meant}:
        assert of(workflow, generated) == of(workflow, meant)


def test_settings_of_effects_and_comments_are_in_it() -> None:
    nodes = read_nodes("sdk-rust/examples/shop/shop")

    [ship] = [node for node in nodes if node.get("name") == "shop/parcel.ship@1"]
    [charge] = [node for node in nodes if node.get("name") == "shop/card.charge@1"]
    assert ship == {
        "$kind": "defeffect",
        "name": "shop/parcel.ship@1",
        "params": "shop/ParcelShipParams@1",
        "receipt": "shop/Shipped@1",
        "impl": {"executor": "shop"},
        "timeout_ms": 60000,
        "retry": {"attempts": 3, "base_ms": 100, "cap_ms": 1000},
        "lane": ["order_id"],
    }
    assert charge["$comment"] == "Take the money."


def test_a_module_is_named_after_its_package() -> None:
    assert set(example("shop").effective.workflows) == {"shop/order@1"}
    [module] = [
        node for node in read_nodes("sdk-rust/examples/shop/shop") if node["$kind"] == "defmodule"
    ]
    assert module["name"] == "shop/shop.module@1"


def test_the_manual_shows_what_the_counter_gives() -> None:
    manual = (SDK / "README.md").read_text()

    [block] = re.findall(r"```json\n(.*?)```", manual, re.DOTALL)
    shown = [json.loads(line) for line in block.splitlines()]
    for node in read_nodes("sdk-rust/examples/counter/counter"):
        assert node in shown
    source = (SDK / "examples/counter/src/lib.rs").read_text()
    assert source.partition("use aos_sdk::prelude::*;")[2].strip() in manual


def test_a_route_for_existing_instances_only_says_so() -> None:
    """SR-20a, M-30a: and the others leave the field out."""
    routes = {
        node["event"]: node.get("creates", "left out")
        for node in read_nodes("orders/orders")
        if node["$kind"] == "subscription" and node["workflow"] == "shop/order@1"
    }

    assert routes == {
        "shop/OrderPlaced@1": "left out",
        "shop/OrderCancelRequested@1": False,
        "shop/OrderOverdue@1": "left out",
    }
