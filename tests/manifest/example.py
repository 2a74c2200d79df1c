"""One good manifest as data, small but with every form in it, and ways to change it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from nacl.signing import SigningKey

from aos.manifest.keys import key_text
from aos.manifest.load import Loaded, Problem, load

WASM = b"\0asm\1\0\0\0 orders"
"""Not a module that runs: loading looks at its bytes only when it is asked to."""

TEXT: dict[str, Any] = {"text": {}}
NAT: dict[str, Any] = {"nat": {}}


def key(seed: int) -> str:
    """A public key as a manifest contains it."""
    return key_text(bytes(SigningKey(bytes([seed]) * 32).verify_key))


def schema(name: str, type_: object) -> dict[str, Any]:
    return {"$kind": "defschema", "name": name, "type": type_}


SCHEMAS = "air/schemas.air.json"
WORKFLOWS = "air/workflows.air.json"
EFFECTS = "air/effects.air.json"
MANIFEST = "air/manifest.air.json"

GOOD: dict[str, Any] = {
    SCHEMAS: [
        schema("acme/OrderId@1", TEXT),
        schema("acme/Placed@1", {"record": {"order_id": {"ref": "acme/OrderId@1"}, "cents": NAT}}),
        schema("acme/Moved@1", {"record": {"at": {"record": {"order": TEXT}}, "note": TEXT}}),
        schema(
            "acme/OrderEvent@1",
            {
                "variant": {
                    "Placed": {"ref": "acme/Placed@1"},
                    "Moved": {"ref": "acme/Moved@1"},
                    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                },
                "$comment": "the events of an order",
            },
        ),
        schema("acme/OrderState@1", {"record": {"paid": {"bool": {}}, "tries": NAT}}),
        schema("acme/OrderNote@1", {"record": {"text": TEXT}}),
        schema("acme/Tick@1", {"record": {"count": NAT}}),
        schema("acme/Charge@1", {"record": {"cents": NAT}}),
        schema("acme/Charged@1", {"record": {"id": TEXT}}),
    ],
    WORKFLOWS: [
        {
            "$kind": "defmodule",
            "name": "acme/orders@1",
            "runtime": {
                "kind": "wasm",
                "artifact": {"kind": "wasm_module", "path": "../modules/orders.wasm"},
            },
        },
        {
            "$kind": "defworkflow",
            "name": "acme/order.step@1",
            "state": "acme/OrderState@1",
            "event": "acme/OrderEvent@1",
            "context": "sys/WorkflowContext@1",
            "annotations": "acme/OrderNote@1",
            "key_schema": "acme/OrderId@1",
            "effects_emitted": ["acme/charge@1", "sys/timer.set@1"],
            "determinism": "strict",
            "impl": {"module": "acme/orders@1", "entrypoint": "step"},
            "limits": {"fuel": 2_000_000},
        },
        {
            "$kind": "defworkflow",
            "name": "acme/count@1",
            "state": "acme/Tick@1",
            "event": "acme/Tick@1",
            "effects_emitted": [],
            "impl": {"module": "acme/orders@1", "entrypoint": "count"},
            "lifecycle": "explicit",
        },
    ],
    EFFECTS: {
        "$kind": "defeffect",
        "name": "acme/charge@1",
        "params": "acme/Charge@1",
        "receipt": "acme/Charged@1",
        "impl": {"executor": "billing"},
        "retry": {"attempts": 3},
        "timeout_ms": 5_000,
    },
    MANIFEST: {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": "acme/OrderEvent@1"}],
        "modules": [{"name": "acme/orders@1"}],
        "workflows": [{"name": "acme/order.step@1"}, {"name": "acme/count@1"}],
        "effects": [{"name": "acme/charge@1"}],
        "routing": {
            "subscriptions": [
                {
                    "event": "acme/Placed@1",
                    "workflow": "acme/order.step@1",
                    "key_field": "order_id",
                },
                {"event": "acme/Moved@1", "op": "acme/order.step@1", "key_field": "at.order"},
                {"event": "acme/Tick@1", "workflow": "acme/count@1"},
            ]
        },
        "executors": [
            {"name": "node", "public_key": key(1), "effects": ["sys/timer.set@1"]},
            {
                "name": "billing",
                "public_key": key(2),
                "effects": ["acme/charge@1"],
                "retired_keys": [key(3)],
            },
        ],
        "limits": {"step": {"events": 16}, "world": {"mailbox": 50}},
    },
}

ARTIFACTS = {"modules/orders.wasm": WASM}


def good() -> dict[str, Any]:
    """A copy of the good manifest: file -> parsed JSON."""
    return copy.deepcopy(GOOD)


def written(documents: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a manifest, with the artifacts that the good one needs."""
    air = {file: json.dumps(document).encode() for file, document in documents.items()}
    return {**air, **ARTIFACTS}


def loaded(documents: Mapping[str, Any] = GOOD) -> Loaded:
    return load(written(documents))


def node(documents: Mapping[str, Any], name: str, kind: str | None = None) -> dict[str, Any]:
    """The definition of that name, or the manifest for ``"manifest"``; changes stay."""
    for document in documents.values():
        for found in document if isinstance(document, list) else [document]:
            if name in (found.get("name"), found.get("$kind")) and kind in (None, found["$kind"]):
                assert isinstance(found, dict)
                return found
    raise KeyError(name)


def lines(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]
