"""A workflow that asks for whatever an event tells it to, and logs what comes back.

An event is ``{key, asks: [{effect, params, ref}], note}``; every continuation is logged as text.
"""

from __future__ import annotations

from typing import Any

from aos.core.journal.records import CellId
from aos.values.cbor import Value, decode_ingress, encode
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Module,
    air,
    effect,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

DESK = "t/desk@1"
PAY = "t/pay@1"
ONCE = "t/once@1"
TIMER = "sys/timer.set@1"
TIMER_CANCEL = "sys/timer.cancel@1"
EFFECT_CANCEL = "sys/effect.cancel@1"
INTROSPECT = [
    f"sys/introspect.{name}@1"
    for name in ("manifest", "workflow_state", "journal_head", "list_cells")
]
EFFECTS = [PAY, ONCE, TIMER, TIMER_CANCEL, EFFECT_CANCEL, *INTROSPECT]
ARMS = {
    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
    "Progress": {"ref": "sys/EffectStreamFrame@1"},
}
TEXT: dict[str, Any] = {"text": {}}
BYTES: dict[str, Any] = {"bytes": {}}
ASK: dict[str, Any] = {"record": {"effect": TEXT, "params": BYTES, "ref": {"option": TEXT}}}


def nodes(arms: dict[str, Any], **more: object) -> list[dict[str, object]]:
    tell = {"record": {"key": TEXT, "asks": {"list": ASK}, "note": TEXT}}
    return [
        schema("t/Tell@1", tell),
        schema("t/Key@1", TEXT),
        schema("t/Log@1", {"list": TEXT}),
        schema("t/Pay@1", {"record": {"n": {"nat": {}}}}),
        schema("t/Paid@1", {"record": {"ref": TEXT}}),
        schema("t/DeskEvent@1", {"variant": {"Tell": {"ref": "t/Tell@1"}, **arms}}),
        effect(PAY, "t/Pay@1", "t/Paid@1"),
        effect(ONCE, "t/Pay@1", "t/Paid@1", delivery="at_most_once"),
        workflow(
            DESK, state="t/Log@1", event="t/DeskEvent@1", key_schema="t/Key@1", effects=EFFECTS,
            **more,
        ),
    ]  # fmt: skip


def desk(envelope: Envelope) -> Envelope:
    log = state_of(envelope) or []
    event = event_of(envelope)
    value = event["$value"]
    match event["$tag"]:
        case "Tell":
            if value["note"] == "fail":
                return {"fault": {"kind": "told", "message": "to fail"}}
            if value["note"] == "delete":
                return {"state": None}
            asked = [
                {"effect": each["effect"], "params": each["params"], "issuer_ref": each["ref"]}
                for each in value["asks"]
            ]
            return {"state": encode([*log, f"told {value['note']}"]), "effects": asked}
        case "Receipt":
            return {"state": encode([*log, receipt_line(value)])}
        case _:
            line = f"{value['kind']} {value['seq']} of {value['issuer_ref']}"
            return {"state": encode([*log, line])}


def receipt_line(value: Any) -> str:
    payload = decode_ingress(value["receipt_payload"])
    detail = payload.get("code") if isinstance(payload, dict) else None
    found = " ".join(
        str(each) for each in (value["issuer_ref"], value["status"], detail) if each is not None
    )
    return f"{value['effect']} {found}"


def desks(
    module: Module = desk, arms: dict[str, Any] | None = None, **manifest: Any
) -> MemoryWorld:
    given = ARMS if arms is None else arms
    return MemoryWorld(
        air(nodes(given), [route("t/Tell@1", DESK, "key")], **manifest), {DESK: module}
    )


def wish(name: str, params: Value, ref: str | None = None) -> Value:
    return {"effect": name, "params": encode(params), "ref": ref}


def pay(ref: str | None = None, n: int = 1) -> Value:
    return wish(PAY, {"n": n}, ref)


def timer(world: MemoryWorld, ref: str | None = None) -> Value:
    return wish(TIMER, {"deliver_at_ns": world.now_ns + 10**9, "key": None}, ref)


def cancel(*, intent: str | None = None, ref: str | None = None, of: str = EFFECT_CANCEL) -> Value:
    return wish(of, {"intent": intent, "issuer_ref": ref}, "cancel")


def tell(world: MemoryWorld, key: str, *asks: Value, note: str = "") -> None:
    world.send("t/Tell@1", {"key": key, "asks": list(asks), "note": note})
    world.run()


def cell_id(key: str) -> CellId:
    return DESK, encode(key)


def log_of(world: MemoryWorld, key: str) -> list[str]:
    found = world.state_of(DESK, key)
    assert isinstance(found, list)
    return [str(line) for line in found]
