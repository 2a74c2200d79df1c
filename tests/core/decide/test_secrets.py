"""A step may name only the secrets that its manifest has and lets it use (K-50, M-56)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.journal.faults import FaultKind
from aos.values.cbor import Value, encode
from tests.memory_world import Envelope, MemoryWorld, air, ask, event_of, route, schema, workflow

ASKER, OTHER = "t/asker@1", "t/other@1"
HTTP = "sys/http.request@1"


def request(alias: str) -> Value:
    secret: Value = {"$tag": "secret", "$value": {"alias": alias, "version": 1}}
    return {
        "method": "GET",
        "url": "https://bank.example/",
        "headers": {"authorization": secret},
        "body_ref": None,
        "body": None,
    }


def asks(envelope: Envelope) -> Envelope:
    return {"state": encode("x"), "effects": [ask(HTTP, request(event_of(envelope)["$value"]))]}


def world() -> MemoryWorld:
    text: dict[str, Any] = {"text": {}}
    event = {
        "variant": {
            "Ask": {"ref": "t/Ask@1"},
            "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
        }
    }
    secret = {"$kind": "defsecret", "binding_id": "env:T_BANK"}
    nodes: list[dict[str, object]] = [
        schema("t/Ask@1", text),
        schema("t/Event@1", event),
        *(
            workflow(name, state="t/Ask@1", event="t/Event@1", effects=[HTTP])
            for name in (ASKER, OTHER)
        ),
        {**secret, "name": "t/bank@1"},
        {**secret, "name": "t/others@1", "workflows": [OTHER]},
    ]
    loaded = air(
        nodes,
        [route("t/Ask@1", ASKER)],
        secrets=[{"name": "t/bank@1"}, {"name": "t/others@1"}],
    )
    return MemoryWorld(loaded, {ASKER: asks, OTHER: asks})


def test_a_secret_of_the_manifest_may_be_named() -> None:
    found = world()
    found.send("t/Ask@1", "t/bank")
    found.run()
    assert [intent.effect.name for intent in found.open()] == [HTTP]


@pytest.mark.parametrize(
    ("alias", "problem"),
    [
        ("t/none", "is not in the manifest"),
        ("t/others", f"may not be used by {ASKER}"),
    ],
)
def test_any_other_is_a_fault_of_the_step(alias: str, problem: str) -> None:
    found = world()
    found.send("t/Ask@1", alias)
    found.run()
    fault = found.cell(ASKER).fault
    assert fault is not None
    assert fault.kind is FaultKind.PARAMS_INVALID
    assert problem in fault.message
    assert found.open() == []
