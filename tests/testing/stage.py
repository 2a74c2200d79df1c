"""A manifest whose cells do what their events say, by the puppet module.

t/cell@1     keyed; t/Do@1 {key, out?, trap?, fault?, keep?, delete?}: ``out`` is the step's output
t/plain@1    unkeyed; t/Tell@1 {out?}: without an arm for frames and rejected receipts
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aos.manifest.builtin_definitions import EFFECTS
from aos.manifest.names import PROVIDED_EFFECTS
from aos.testing import World
from aos.values.cbor import Value, encode
from tests.memory_world import effect, route, schema

ROOT = Path(__file__).parents[2]
ORDERS = ROOT / "manifests" / "orders"
WASM = (ROOT / "modules" / "puppet" / "puppet.wasm").read_bytes()

CELL, PLAIN, MODULE = "t/cell@1", "t/plain@1", "t/puppet.module@1"
DO, TELL, NEWS = "t/Do@1", "t/Tell@1", "t/News@1"
CHARGE, ONCE, TIMER = "t/charge@1", "t/once@1", "sys/timer.set@1"
SECOND = 10**9


def _option(type: object) -> object:
    return {"option": type}


def nodes(*, version: int = 1, **manifest: object) -> list[dict[str, object]]:
    """``version`` changes a limit, and so the manifest."""
    own = [
        schema("t/Key@1", {"text": {}}),
        schema(
            DO,
            {
                "record": {
                    "key": {"text": {}},
                    "out": _option({"bytes": {}}),
                    "trap": _option({"bool": {}}),
                    "fault": _option({"text": {}}),
                    "keep": _option({"bool": {}}),
                    "delete": _option({"bool": {}}),
                }
            },
        ),
        schema(TELL, {"record": {"out": _option({"bytes": {}})}}),
        schema(
            NEWS,
            {
                "record": {
                    "what": {"variant": {"Good": {"unit": {}}, "Bad": {"text": {}}}},
                    "for": {"duration": {}},
                }
            },
        ),
        schema("t/State@1", {"nat": {}}),
        schema("t/Note@1", {"text": {}}),
        schema("t/Charge@1", {"record": {"id": {"text": {}}, "cents": {"nat": {}}}}),
        schema("t/Charged@1", {"record": {"ref": {"text": {}}, "data": _option({"bytes": {}})}}),
        schema(
            "t/CellEvent@1",
            {
                "variant": {
                    "Do": {"ref": DO},
                    "Settled": {"ref": "sys/EffectReceiptEnvelope@1"},
                    "Rejected": {"ref": "sys/EffectReceiptRejected@1"},
                    "Frame": {"ref": "sys/EffectStreamFrame@1"},
                }
            },
        ),
        schema(
            "t/PlainEvent@1",
            {"variant": {"Tell": {"ref": TELL}, "Settled": {"ref": "sys/EffectReceiptEnvelope@1"}}},
        ),
        effect(CHARGE, "t/Charge@1", "t/Charged@1"),
        effect(ONCE, "t/Charge@1", "t/Charged@1", delivery="at_most_once"),
    ]
    used = [CHARGE, ONCE, *sorted(EFFECTS.keys() - PROVIDED_EFFECTS)]
    workflows: list[dict[str, object]] = [
        {
            "$kind": "defworkflow",
            "name": name,
            "state": "t/State@1",
            "event": event,
            "annotations": "t/Note@1",
            "effects_emitted": used,
            "impl": {"module": MODULE, "entrypoint": "step"},
            "limits": {"effects": 64 - version},
            **({"key_schema": "t/Key@1"} if name == CELL else {}),
        }
        for name, event in ((CELL, "t/CellEvent@1"), (PLAIN, "t/PlainEvent@1"))
    ]
    module: dict[str, object] = {
        "$kind": "defmodule",
        "name": MODULE,
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module"}},
    }
    document: dict[str, object] = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": each["name"]} for each in own if each["$kind"] == "defschema"],
        "modules": [{"name": MODULE}],
        "workflows": [{"name": CELL}, {"name": PLAIN}],
        "effects": [{"name": name} for name in used],
        "routing": {"subscriptions": [route(DO, CELL, "key"), route(TELL, PLAIN)]},
        **manifest,
    }
    return [*own, *workflows, module, document]


MODULES: Mapping[str, bytes] = {MODULE: WASM}


def stage(**given: Any) -> World:
    """A world of ``nodes``."""
    return World(nodes(), modules=MODULES, **given)


def out(
    state: Value = 1,
    *,
    effects: tuple[tuple[str, object, str | None], ...] = (),
    events: tuple[tuple[str, object], ...] = (),
    status: str | None = None,
    ann: str | None = None,
) -> bytes:
    """A step's output; effects are (name, params, issuer_ref), and the reference of one whose
    receipt the puppet gets is what it does then."""
    asked: list[Value] = []
    for name, params, ref in effects:
        request: dict[str | int, Value] = {"effect": name, "params": cbor(params)}
        if ref is not None:
            request["issuer_ref"] = ref
        asked.append(request)
    found: dict[str | int, Value] = {
        "state": None if state is None else encode(state),
        "effects": asked,
        "domain_events": [{"schema": name, "value": cbor(value)} for name, value in events],
    }
    if status is not None:
        found["status"] = status
    if ann is not None:
        found["ann"] = encode(ann)
    return encode(found)


def cbor(value: Any) -> bytes:
    return encode(value)


def charge(id: str = "a", cents: int = 5) -> dict[str, object]:
    return {"id": id, "cents": cents}


def timer(at_ns: int, key: str | None = None) -> dict[str, object]:
    return {"deliver_at_ns": at_ns, "key": key}


def then(output: bytes) -> str:
    """An issuer reference with which the puppet returns this output at the receipt."""
    return f"out:{output.hex()}"
