"""Events that workflows emit and that anyone may send (spec/cli.md, C-21c)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.changed_manifest import changed_manifest

from aos.host.apply.dry_run import open_events
from aos.manifest.load import Loaded
from aos.sandbox.module import Unreadable, constants

MANIFESTS = Path(__file__).parents[3] / "manifests"


def opened(folder: str, **fields: Any) -> Loaded:
    return changed_manifest(MANIFESTS / folder, is_open=True, **fields)


def found_in(loaded: Loaded) -> list[str]:
    return [each.event for each in open_events(loaded)]


@pytest.mark.parametrize(
    ("folder", "events"),
    [
        (
            "gateway",
            [
                "gw/EpochTxSettled@1",
                "gw/LaneCommand@1",
                "gw/ScoreTxSettled@1",
                "gw/TxCancelRequested@1",
                "gw/TxRequested@1",
                "gw/WorkTxSettled@1",
            ],
        ),
        (
            "orders",
            [
                f"shop/Order{each}@1"
                for each in ("Accepted", "Charged", "Closed", "Overdue", "Refunded", "Shipped")
            ],
        ),
        ("cookbook/saga", []),
        ("cookbook/flow_saga", []),
        ("cookbook/approval", []),
        (
            "cookbook/flow_events",
            [f"parcel/{each}@1" for each in ("Deliver", "Delivered", "Lost", "Redirect")],
        ),
        (
            "cookbook/linear",
            ["aos/LinearReleased@1", "aos/LinearReserved@1", "aos/ScheduleDone@1"],
        ),
    ],
)
def test_emitted_events_that_anyone_may_send_are_found(folder: str, events: list[str]) -> None:
    """C-21c: among them none that only come from outside."""
    loaded = opened(folder)

    assert found_in(loaded) == events
    if events:
        assert {each.workflow for each in open_events(loaded)} <= loaded.effective.workflows.keys()


def test_nothing_is_told_of_a_manifest_that_lists_its_events_from_outside() -> None:
    """C-21c: also if the list has such an event, because its author has decided it."""
    assert found_in(changed_manifest(MANIFESTS / "gateway")) == []
    routes = [
        {"event": each.event, "workflow": each.workflow, "key_field": each.key_field}
        for each in opened("gateway").effective.subscriptions
    ]
    routing = {"subscriptions": routes, "ingress": ["gw/TxRequested@1"]}
    assert found_in(changed_manifest(MANIFESTS / "gateway", routing=routing)) == []


def test_the_event_of_a_schedule_of_the_manifest_is_one_that_a_workflow_emits() -> None:
    """C-21c."""
    schedule = {
        "id": "daily",
        "every_ms": 60_000,
        "event": "trip/GoOn@1",
        "value": {"trip_id": "t"},
    }
    loaded = opened("cookbook/saga", uses=["aos/schedule@1"], schedules=[schedule])

    assert [(each.event, each.workflow) for each in open_events(loaded)] == [
        ("trip/GoOn@1", "aos/schedule@1")
    ]


def test_modules_whose_bytes_are_not_there_tell_nothing() -> None:
    loaded = opened("gateway")

    assert found_in(replace(loaded, modules={})) == []
    broken = dict.fromkeys(loaded.modules, b"\0asm\1\0\0\0\x0b\xff")
    assert found_in(replace(loaded, modules=broken)) == []


def test_the_constants_of_a_module_are_its_data_section() -> None:
    wasm = b"\0asm\1\0\0\0" + b"\0\4\1xaz" + b"\x0b\2\1d"

    assert constants(wasm).endswith(b"\1d")
    assert b"xaz" not in constants(wasm)
    assert constants(wasm[:8]) == b""
    with pytest.raises(Unreadable):
        constants(wasm[:-1])
