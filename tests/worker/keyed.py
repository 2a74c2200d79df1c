"""A manifest whose effect names secrets and blobs; its cells do what their events say (puppet.py).

``test/keyed@1`` takes a list of keys (``sys/SecretRef@1``), a word for the function of
``effects/keeper.py``, a hash that is a blob, pages with more of them, and a hash that is none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any, Final

from aos.host.executors.task import Task
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.values.cbor import encode
from aos.values.digests import hash_text
from tests.host.puppet import DO, WASM
from tests.memory_world import effect, route, schema
from tests.worker.stage import intent_of

KEYED: Final = "test/keyed@1"
FLOW: Final = "test/flow@1"
OTHER: Final = "test/other@1"
KEYS: Final = "test/keys@1"
SECRET: Final = f"0x{'5e' * 24}0123456789abcdef"
"""Of the form of a private key: 32 bytes in hex."""

REF: Final = {"alias": "test/keys", "version": 1}


def _option(type_: object) -> object:
    return {"option": type_}


def nodes(*, has_secrets: bool = True) -> list[dict[str, Any]]:
    text: dict[str, Any] = {"text": {}}
    own: list[dict[str, Any]] = [
        schema(
            DO,
            {
                "record": {
                    "key": text,
                    "out": _option({"bytes": {}}),
                    "trap": _option({"bool": {}}),
                }
            },
        ),
        schema("test/Key@1", text),
        schema("test/Count@1", {"nat": {}}),
        schema(
            "test/Keyed@1",
            {
                "record": {
                    "keys": {"list": {"ref": "sys/SecretRef@1"}},
                    "what": text,
                    "data": _option({"hash": {}}),
                    "pages": {"list": {"record": {"image": _option({"hash": {}})}}},
                    "manifest": _option({"hash": {}}),
                }
            },
        ),
        schema("test/Said@1", {"record": {"said": text, "raw": _option({"bytes": {}})}}),
        schema(
            "test/Event@1",
            {"variant": {"Do": {"ref": DO}, "Settled": {"ref": "sys/EffectReceiptEnvelope@1"}}},
        ),
    ]
    secrets: list[dict[str, Any]] = [
        {"$kind": "defsecret", "name": KEYS, "binding_id": "file:keys"},
        {
            "$kind": "defsecret",
            "name": "test/hosted@1",
            "binding_id": "file:keys",
            "hosts": ["bank.example"],
        },
        {
            "$kind": "defsecret",
            "name": "test/others@1",
            "binding_id": "file:keys",
            "workflows": [OTHER],
        },
    ]
    module = {
        "$kind": "defmodule",
        "name": "test/puppet.module@1",
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "p.wasm"}},
    }
    workflows = [
        {
            "$kind": "defworkflow",
            "name": name,
            "state": "test/Count@1",
            "event": "test/Event@1",
            "key_schema": "test/Key@1",
            "effects_emitted": [KEYED, "sys/blob.put@1"],
            "impl": {"module": "test/puppet.module@1", "entrypoint": "step"},
        }
        for name in (FLOW, OTHER)
    ]
    manifest: dict[str, Any] = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": each["name"]} for each in own],
        "modules": [{"name": "test/puppet.module@1"}],
        "workflows": [{"name": FLOW}, {"name": OTHER}],
        "effects": [{"name": KEYED}, {"name": "sys/blob.put@1"}],
        "routing": {"subscriptions": [route(DO, FLOW, "key")]},
    }
    if has_secrets:
        manifest["secrets"] = [{"name": each["name"]} for each in secrets]
    known = secrets if has_secrets else []
    return [
        *own,
        *known,
        effect(KEYED, "test/Keyed@1", "test/Said@1"),
        module,
        *workflows,
        manifest,
    ]


def files() -> dict[str, bytes]:
    return {"m.air.json": json.dumps(nodes()).encode(), "p.wasm": WASM.read_bytes()}


@cache
def keyed_manifest(*, has_secrets: bool = True) -> Effective:
    given = json.dumps(nodes(has_secrets=has_secrets)).encode()
    return load({"m.air.json": given, "p.wasm": WASM.read_bytes()}).effective


def params(what: str = "digest", **changes: Any) -> Any:
    usual = {"keys": [REF], "what": what, "data": None, "pages": [], "manifest": None}
    return {**usual, **changes}


def keyed_task(number: int, what: str = "digest", **changes: Any) -> Task:
    """A task of ``test/keyed@1`` under the manifest."""
    return replace(
        Task(
            intent=intent_of(number),
            effect=keyed_manifest().effects[KEYED],
            params=b"",
            idempotency_key=hash_text(intent_of(number)),
            workflow=changes.pop("workflow", FLOW),
            cell_key=encode("k"),
            issuer_ref=None,
            opened_seq=number,
            opened_ns=1_000,
        ),
        params=encode(params(what, **changes)),
    )
