"""A manifest with a flow as ``#[flow]`` writes it, whose module a test supplies.

shop/order@1   starts by shop/Placed@1 {order_id}; hears shop/Cancel@1 and shop/Paid@1; charges,
ships
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aos.manifest.load import Loaded, load
from aos.values.cbor import encode
from tests.host.puppet import WASM
from tests.memory_world import effect, route, schema

ORDER, LEDGER = "shop/order@1", "shop/ledger@1"
PLACED, CONTROL, CANCEL, PAID = (
    "shop/Placed@1", "shop/OrderControl@1", "shop/Cancel@1", "shop/Paid@1",
)  # fmt: skip
CHARGE, REFUND, SHIP = "shop/charge@1", "shop/refund@1", "shop/ship@1"

TEXT: Any = {"text": {}}
NAT: Any = {"nat": {}}
BYTES: Any = {"bytes": {}}


def option(inside: Any) -> Any:
    return {"option": inside}


def record(**fields: Any) -> Any:
    return {"record": fields}


FLOW_STATE = record(
    ops=BYTES,
    view=option(BYTES),
    error=option(BYTES),
    inbox=BYTES,
    input=option(BYTES),
    output=option(BYTES),
    schemas=record(input=TEXT, output=option(TEXT), view=option(TEXT)),
    parent=option(record(schema=TEXT, key=BYTES, path=TEXT, attempt=NAT)),
    refs={"set": {"hash": {}}},
    status=TEXT,
    started_ns=NAT,
)
COMMAND = {
    "variant": {
        "Cancel": record(rollback={"bool": {}}),
        "Resume": record(skip={"bool": {}}),
        "Continue": {"unit": {}},
    }
}
OUT = option(BYTES)
"""With the puppet as module, the output of the step."""


def nodes(*, upgrade: str = "quiesce", limit: int = 64, module: str = "m.wasm") -> list[Any]:
    """The nodes of the manifest; ``limit`` makes one that differs."""
    own = [
        schema("aos/Flow@1", FLOW_STATE),
        schema("shop/OrderId@1", TEXT),
        schema(PLACED, record(order_id=TEXT, cents=NAT, out=OUT)),
        schema(CONTROL, record(instance=TEXT, command=COMMAND)),
        schema(CANCEL, record(order_id=TEXT, why=TEXT, out=OUT)),
        schema(PAID, record(of=record(order_id=TEXT), cents=NAT, out=OUT)),
        schema("shop/Parcel@1", record(number=TEXT)),
        schema("shop/Charge@1", record(cents=NAT)),
        schema("shop/Charged@1", record(charge=TEXT)),
        schema("shop/Count@1", NAT),
        schema(
            "shop/OrderFlowEvent@1",
            {
                "variant": {
                    "Start": {"ref": PLACED},
                    "Control": {"ref": CONTROL},
                    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                    "Rejected": {"ref": "sys/EffectReceiptRejected@1"},
                    "M0": {"ref": CANCEL},
                    "M1": {"ref": PAID},
                }
            },
        ),
    ]
    effects = [
        effect(CHARGE, "shop/Charge@1", "shop/Charged@1"),
        effect(REFUND, "shop/Charged@1", "shop/Charged@1"),
        effect(SHIP, "shop/Parcel@1", "shop/Parcel@1"),
    ]
    return [
        *own,
        *effects,
        {
            "$kind": "defmodule",
            "name": "shop/order.module@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": module}},
        },
        {
            "$kind": "defworkflow",
            "name": ORDER,
            "state": "aos/Flow@1",
            "event": "shop/OrderFlowEvent@1",
            "context": "sys/WorkflowContext@1",
            "key_schema": "shop/OrderId@1",
            "lifecycle": "explicit",
            "upgrade": upgrade,
            "effects_emitted": [CHARGE, REFUND, SHIP, "sys/timer.set@1", "sys/effect.cancel@1"],
            "impl": {"module": "shop/order.module@1", "entrypoint": "step"},
            "limits": {"effects": limit},
        },
        {
            "$kind": "defworkflow",
            "name": LEDGER,
            "state": "shop/Count@1",
            "event": CANCEL,
            "key_schema": "shop/OrderId@1",
            "effects_emitted": [],
            "impl": {"module": "shop/order.module@1", "entrypoint": "step"},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [{"name": node["name"]} for node in own],
            "modules": [{"name": "shop/order.module@1"}],
            "workflows": [{"name": ORDER}, {"name": LEDGER}],
            "effects": [{"name": node["name"]} for node in effects],
            "routing": {
                "subscriptions": [
                    route(PLACED, ORDER, "order_id"),
                    {**route(CONTROL, ORDER, "instance"), "creates": False},
                    route(CANCEL, ORDER, "order_id"),
                    route(PAID, ORDER, "of.order_id"),
                ]
            },
        },
    ]


def files(**more: Any) -> dict[str, bytes]:
    """The files of the manifest with the puppet as module: each event says what its step does."""
    return {"m.air.json": json.dumps(nodes(**more)).encode(), "m.wasm": WASM.read_bytes()}


def manifest(**more: Any) -> Loaded:
    return load(files(**more))


def placed(order_id: str, out: bytes | None = None, cents: int = 450) -> Any:
    return {"order_id": order_id, "cents": cents, "out": out}


def step(
    state: bytes,
    *effects: tuple[str, Any, str],
    status: str = "running",
    events: Sequence[tuple[str, Any]] = (),
) -> bytes:
    """The output of a step; an effect is (name, params, issuer reference)."""
    return encode(
        {
            "state": state,
            "status": status,
            "effects": [
                {"effect": name, "params": encode(params), "issuer_ref": ref}
                for name, params, ref in effects
            ],
            "domain_events": [{"schema": name, "value": encode(value)} for name, value in events],
        }
    )


def diverged(path: str = "charge", expected: str = "step charge", found: str = "step pay") -> bytes:
    """The output of a step whose code does not fit the history."""
    detail: Any = {"path": path, "expected": expected, "found": found}
    message = f"{path}: expected {expected}, found {found}"
    return encode({"fault": {"kind": "diverged", "message": message, "detail": encode(detail)}})
