"""Which events from outside a flow that has ended ignores (spec/flow.md, FL-83), in the world of
``aos.testing``, whose inputs pass the same checks. The ways in are in
tests/cli/test_events_after_the_end.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aos.core.decide.answers import Rule
from aos.testing import InputRefused, World
from aos.values.cbor import encode
from tests.flow import shop
from tests.flow.histories import state
from tests.flow.probe import CHILD, Probe
from tests.host.puppet import WASM
from tests.memory_world import schema

ENDED = Rule.CELL_HAS_ENDED.value
MODULES = {"shop/order.module@1": WASM.read_bytes()}


def rule_of(world: World, event: str, value: Any) -> str:
    with pytest.raises(InputRefused) as refused:
        world.send(event, value)
    return refused.value.rule


def paid(key: str) -> Any:
    return {"of": {"order_id": key}, "cents": 3, "out": None}


def test_a_call_of_a_flow_that_has_ended_is_admitted_because_the_flow_answers_it() -> None:
    """FL-83, FL-72: its start, its commands and a result for it are refused"""
    with Probe("spawns") as probe:
        probe.begin()
        probe.world.finish()
        world = probe.world
        reply = {"schema": "t/ProbeReturn@1", "key": encode("a"), "path": "kid", "attempt": 1}
        work = {"id": "kid", "what": "x"}

        sent = world.send("t/ChildCall@1", {"input": work, "reply": reply})
        world.run()

        assert sent.to == ((CHILD, "kid"),)
        [answer] = world.events("t/ProbeReturn@1")
        assert answer["result"]["$tag"] == "Failed"
        command = {"instance": "kid", "command": {"$tag": "Continue"}}
        assert rule_of(world, "t/Work@1", work) == ENDED
        assert rule_of(world, "t/ChildControl@1", command) == ENDED
        assert rule_of(world, "t/ProbeReturn@1", answer) == ENDED
        assert rule_of(world, "t/Note@1", {"id": "a", "text": "late"}) == ENDED


def plain() -> list[Any]:
    """The manifest in which the order was no flow yet; its states have a status, too."""
    nodes = copy.deepcopy(shop.nodes())
    for node in nodes:
        if node.get("name") == shop.ORDER:
            node["state"] = "shop/Old@1"
        if node["$kind"] == "manifest":
            node["schemas"].append({"name": "shop/Old@1"})
    return [schema("shop/Old@1", {"record": {"status": {"text": {}}}}), *nodes]


def test_an_instance_from_before_its_workflow_was_a_flow_takes_its_messages() -> None:
    """FL-83, K-74a: it stays under the manifest whose schema its state fits."""
    with World(plain(), modules=MODULES, replay=False) as world:
        out = shop.step(encode({"status": "completed"}), status="completed")
        world.send(shop.PLACED, shop.placed("old", out))
        world.run()
        world.apply(shop.nodes(), modules=MODULES, mode="pin")
        over = state(status="completed", inputs=shop.placed("new"))
        world.send(shop.PLACED, shop.placed("new", shop.step(over, status="completed")))
        world.run()

        assert world.send(shop.PAID, paid("old")).to == ((shop.ORDER, "old"),)
        assert rule_of(world, shop.PAID, paid("new")) == ENDED


def test_a_message_that_only_the_later_manifest_has_is_refused_as_well() -> None:
    """FL-83: the entry would run under the manifest in force."""
    earlier = shop.nodes()
    for node in earlier:
        if node.get("name") == "shop/OrderFlowEvent@1":
            del node["type"]["variant"]["M1"]
        if node["$kind"] == "manifest":
            node["routing"]["subscriptions"].pop()
    with World(earlier, modules=MODULES, replay=False) as world:
        over = state(status="completed", inputs=shop.placed("done"))
        world.send(shop.PLACED, shop.placed("done", shop.step(over, status="completed")))
        world.run()
        world.apply(shop.nodes(), modules=MODULES, mode="pin")

        assert rule_of(world, shop.PAID, paid("done")) == ENDED


def test_an_ended_flow_is_known_after_a_restart_and_after_a_snapshot() -> None:
    """FL-83"""
    with World(shop.nodes(), modules=MODULES, replay=False) as world:
        over = state(status="failed", inputs=shop.placed("lost"))
        world.send(shop.PLACED, shop.placed("lost", shop.step(over, status="failed")))
        world.run()

        for again in (world.restart, world.snapshot):
            again()
            assert rule_of(world, shop.PAID, paid("lost")) == ENDED
