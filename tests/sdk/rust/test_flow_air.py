"""The AIR of a flow: what `#[flow]` declares (SR-25)."""

from __future__ import annotations

from typing import Any

from tests.sdk.rust.examples import example, read_nodes

NODES = read_nodes("sdk-rust/examples/shop-flow/shop-flow")


def node(kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in NODES if each["$kind"] == kind and each["name"] == name]
    return found


def test_a_flow_is_a_workflow_with_the_state_of_all_flows() -> None:
    workflow = node("defworkflow", "shop/order@1")

    assert {key: value for key, value in workflow.items() if key != "effects_emitted"} == {
        "$kind": "defworkflow",
        "name": "shop/order@1",
        "state": "aos/Flow@1",
        "event": "shop/OrderFlowEvent@1",
        "context": "sys/WorkflowContext@1",
        "key_schema": "shop/OrderId@1",
        "limits": {"effects": 1024, "events": 1024, "keys": 64},
        "lifecycle": "explicit",
        "impl": {"module": "shop/shop-flow.module@1", "entrypoint": "order"},
    }


def test_timers_and_cancellations_are_among_its_effects() -> None:
    workflow = node("defworkflow", "shop/order@1")

    assert workflow["effects_emitted"] == [
        "shop/card.charge@1",
        "shop/card.refund@1",
        "shop/parcel.ship@1",
        "sys/timer.set@1",
        "sys/effect.cancel@1",
    ]


def test_its_event_has_an_arm_for_everything_that_can_reach_it() -> None:
    order = node("defschema", "shop/OrderFlowEvent@1")["type"]["variant"]
    basket = node("defschema", "shop/BasketFlowEvent@1")["type"]["variant"]

    assert list(order.items()) == [
        ("Start", {"ref": "shop/Placed@1"}),
        ("Control", {"ref": "shop/OrderControl@1"}),
        ("Receipt", {"ref": "sys/EffectReceiptEnvelope@1"}),
        ("Rejected", {"ref": "sys/EffectReceiptRejected@1"}),
        ("Call", {"ref": "shop/OrderCall@1"}),
        ("M0", {"ref": "shop/Cancel@1"}),
    ]
    assert list(basket.items()) == [
        ("Start", {"ref": "shop/Filled@1"}),
        ("Control", {"ref": "shop/BasketControl@1"}),
        ("Receipt", {"ref": "sys/EffectReceiptEnvelope@1"}),
        ("Rejected", {"ref": "sys/EffectReceiptRejected@1"}),
        ("Return", {"ref": "shop/BasketReturn@1"}),
    ]


def test_controls_calls_and_returns_have_the_shapes_that_the_engine_reads() -> None:
    text: dict[str, Any] = {"text": {}}
    nat: dict[str, Any] = {"nat": {}}
    data: dict[str, Any] = {"bytes": {}}

    reply = {"record": {"schema": text, "key": data, "path": text, "attempt": nat}}
    cancel = {"record": {"rollback": {"bool": {}}, "parent": {"option": reply}}}
    assert node("defschema", "shop/OrderControl@1")["type"] == {
        "record": {
            "instance": text,
            "command": {
                "variant": {
                    "Cancel": cancel,
                    "Resume": {"record": {"skip": {"bool": {}}}},
                    "Continue": {"unit": {}},
                }
            },
        }
    }
    assert node("defschema", "shop/OrderCall@1")["type"] == {
        "record": {"input": {"ref": "shop/Placed@1"}, "reply": reply}
    }
    assert node("defschema", "shop/BasketReturn@1")["type"] == {
        "record": {
            "instance": text,
            "path": text,
            "attempt": nat,
            "result": {"variant": {"Ok": data, "Failed": data}},
        }
    }


def test_controls_and_returns_are_routed_to_flows_that_exist() -> None:
    def routes(workflow: str) -> list[tuple[str, str, bool]]:
        return [
            (each["event"], each["key_field"], each.get("creates", True))
            for each in NODES
            if each["$kind"] == "subscription" and each["workflow"] == workflow
        ]

    assert routes("shop/order@1") == [
        ("shop/Placed@1", "order_id", True),
        ("shop/Cancel@1", "order_id", True),
        ("shop/OrderControl@1", "instance", False),
        ("shop/OrderCall@1", "input.order_id", True),
    ]
    assert routes("shop/basket@1") == [
        ("shop/Filled@1", "basket_id", True),
        ("shop/BasketControl@1", "instance", False),
        ("shop/BasketReturn@1", "instance", False),
    ]


def test_a_flow_is_a_manifest_that_loads() -> None:
    effective = example("shop-flow").effective

    assert effective.workflows["shop/order@1"].limits.keys == 64
