"""A world on disk whose cells obey their events, by the puppet module.

host/puppet@1   host/Do@1 {key, out?, trap?}: counts its steps; ``out`` is the output of the step
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aos.host.door.writer import Item
from aos.manifest.load import Loaded, load
from aos.values.cbor import encode
from tests.memory_world import effect, route, schema

WASM = Path(__file__).parents[2] / "modules" / "puppet" / "puppet.wasm"
PUPPET, DO, ECHO = "host/puppet@1", "host/Do@1", "host/echo@1"


def files(
    *, version: int = 1, effects: tuple[str, ...] = (ECHO,), **manifest: Any
) -> dict[str, bytes]:
    word: object = {"record": {"word": {"text": {}}}}
    own = [
        schema(
            DO,
            {
                "record": {
                    "key": {"text": {}},
                    "out": {"option": {"bytes": {}}},
                    "trap": {"option": {"bool": {}}},
                }
            },
        ),
        schema("host/Key@1", {"text": {}}),
        schema("host/Count@1", {"nat": {}}),
        schema("host/Word@1", word),
        schema(
            "host/Event@1",
            {"variant": {"Do": {"ref": DO}, "Settled": {"ref": "sys/EffectReceiptEnvelope@1"}}},
        ),
    ]
    nodes = [
        *own,
        *(effect(name, "host/Word@1", "host/Word@1") for name in effects if name[:4] != "sys/"),
        {
            "$kind": "defmodule",
            "name": "host/puppet.module@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "p.wasm"}},
        },
        {
            "$kind": "defworkflow",
            "name": PUPPET,
            "state": "host/Count@1",
            "event": "host/Event@1",
            "key_schema": "host/Key@1",
            "effects_emitted": list(effects),
            "impl": {"module": "host/puppet.module@1", "entrypoint": "step"},
            "limits": {"effects": 64 - version},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [{"name": node["name"]} for node in own],
            "modules": [{"name": "host/puppet.module@1"}],
            "workflows": [{"name": PUPPET}],
            "effects": [{"name": name} for name in effects],
            "routing": {"subscriptions": [route(DO, PUPPET, "key")]},
            **manifest,
        },
    ]
    return {"m.air.json": json.dumps(nodes).encode(), "p.wasm": WASM.read_bytes()}


def manifest(*, version: int = 1, effects: tuple[str, ...] = (ECHO,), **more: Any) -> Loaded:
    """Each ``version`` differs in a limit; ``effects`` are what the puppet may ask for."""
    return load(files(version=version, effects=effects, **more))


def asks(*words: str, effect: str = ECHO) -> bytes:
    """The output of a step that asks for the effect once for each word."""
    return asks_for(*((effect, {"word": word}) for word in words))


def asks_for(*effects: tuple[str, Any]) -> bytes:
    asked: Any = [{"effect": name, "params": encode(params)} for name, params in effects]
    return encode({"state": encode(1), "effects": asked, "status": "running"})


def do(key: str, out: bytes | None = None, submission_id: str | None = None) -> Item:
    value: Any = {"key": key, "out": out}
    return Item(schema=DO, value=encode(value), submission_id=submission_id)


def trap(key: str) -> Item:
    return Item(schema=DO, value=encode({"key": key, "trap": True}))
