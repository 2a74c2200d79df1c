"""A shop in a group of worlds in memory, and the same shop in one world.

An order ``c-1|o-7`` is with its customer ``c-1``; each order counts its notes, and a note can say
what it does: ``ship`` (tell the customer), ``tell:ORDER``, ``log``, ``rate``, ``look:ORDER``,
``resolve:WORKSPACE`` and ``list`` (read the world). ``look-raw:HEX`` has the bytes of a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.records import CellId, slot_bytes
from aos.manifest.load import Loaded
from aos.manifest.shards import EVERY, shard_of_event, with_shard
from aos.values.cbor import Value, decode_record, encode
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Module,
    air,
    ask,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

TEXT: dict[str, Any] = {"text": {}}
ORDER, CUSTOMER, LOG, RATES = "s/order@1", "s/customer@1", "s/log@1", "s/rates@1"
PLACED, SHIPPED, NOTED, RATED = "s/Placed@1", "s/Shipped@1", "s/Noted@1", "s/Rated@1"
LOOK, LIST = "sys/introspect.workflow_state@1", "sys/introspect.list_cells@1"
RESOLVE = "sys/workspace.resolve@1"
PLACEMENTS: list[dict[str, str]] = [
    {"workflow": ORDER, "shard_by": "|"},
    {"workflow": RATES, "shard": "each"},
]


def shop(placements: list[dict[str, str]] | None = None, version: int = 1) -> Loaded:
    nodes = [
        schema("s/Id@1", TEXT),
        schema("s/Lines@1", {"list": TEXT}),
        schema(PLACED, {"record": {"order": TEXT, "note": TEXT}}),
        *(
            schema(event, {"record": {"key": TEXT, "note": TEXT}})
            for event in (SHIPPED, NOTED, RATED)
        ),
        schema(
            "s/OrderEvent@1",
            {
                "variant": {
                    "Placed": {"ref": PLACED},
                    "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                }
            },
        ),
        workflow(
            ORDER,
            state="s/Lines@1",
            event="s/OrderEvent@1",
            key_schema="s/Id@1",
            effects=[LOOK, LIST, RESOLVE],
        ),
        workflow(CUSTOMER, state="s/Lines@1", event=SHIPPED, key_schema="s/Id@1"),
        workflow(LOG, state="s/Lines@1", event=NOTED),
        workflow(RATES, state="s/Lines@1", event=RATED),
    ]
    routes = [
        route(PLACED, ORDER, "order"),
        route(SHIPPED, CUSTOMER, "key"),
        route(NOTED, LOG),
        route(RATED, RATES),
        route("sys/WorkspaceCommit@1", "sys/Workspace@1", "workspace"),
    ]
    shards = PLACEMENTS if placements is None else placements
    routing = {"subscriptions": routes, "shards": shards}
    return air(nodes, routes, version=version, routing=routing, uses=["aos/schedule@1"])


def _order(envelope: Envelope) -> Envelope:
    lines: list[Any] = list(state_of(envelope) or [])
    event = event_of(envelope)
    if event["$tag"] == "Receipt":
        receipt = event["$value"]
        payload: Any = decode_record(receipt["receipt_payload"])
        answer = payload["code"] if receipt["status"] == "error" else "ok"
        return {"state": encode([*lines, f"{receipt['effect']} {answer}"])}
    order, note = event["$value"]["order"], event["$value"]["note"]
    out: Envelope = {"state": encode([*lines, note])}
    action, _, argument = note.partition(":")
    match action:
        case "ship":
            customer = order.partition("|")[0]
            out["domain_events"] = [emit(SHIPPED, {"key": customer, "note": order})]
        case "tell":
            out["domain_events"] = [emit(PLACED, {"order": argument, "note": "told"})]
        case "log":
            out["domain_events"] = [emit(NOTED, {"key": "", "note": order})]
        case "rate":
            out["domain_events"] = [emit(RATED, {"key": "", "note": order})]
        case "look" | "look-raw":
            key = encode(argument) if action == "look" else bytes.fromhex(argument)
            params = {"workflow": ORDER, "key": key, "consistency": None}
            out["effects"] = [ask(LOOK, params)]
        case "resolve":
            out["effects"] = [ask(RESOLVE, {"workspace": argument, "version": None})]
        case "list":
            params = {"workflow": ORDER, "after": None, "limit": None, "consistency": None}
            out["effects"] = [ask(LIST, params)]
    return out


def _lines(envelope: Envelope) -> Envelope:
    return {"state": encode([*(state_of(envelope) or []), event_of(envelope)["note"]])}


MODULES: Mapping[str, Module] = {ORDER: _order, CUSTOMER: _lines, LOG: _lines, RATES: _lines}


def in_shard(loaded: Loaded, index: int, shards: int) -> Loaded:
    """The manifest of one shard."""
    return Loaded(effective=with_shard(loaded.effective, index, shards), modules=loaded.modules)


@dataclass
class MemoryGroup:
    """A group of worlds in memory, whose events a sender routes."""

    loaded: Loaded
    shards: int
    modules: Mapping[str, Module] = field(default_factory=lambda: MODULES)

    def __post_init__(self) -> None:
        self.worlds = [
            MemoryWorld(in_shard(self.loaded, index, self.shards), self.modules)
            for index in range(self.shards)
        ]

    def shard_of(self, schema: str, value: Value) -> int | str:
        return shard_of_event(self.loaded.effective, schema, encode(value), self.shards)

    def send(self, schema: str, value: Value) -> list[Answer]:
        """The answers of the shards to which a sender gives the event."""
        shard = self.shard_of(schema, value)
        worlds = self.worlds if shard == EVERY else [self.worlds[int(shard)]]
        return [world.send(schema, value) for world in worlds]

    def run(self) -> None:
        for world in self.worlds:
            world.run()

    def admitting(self, schema: str, value: Value) -> list[int]:
        """The shards that admit an event which every one of them gets."""
        answers = [world.send(schema, value) for world in self.worlds]
        return [index for index, answer in enumerate(answers) if isinstance(answer, Admitted)]


def states(world: MemoryWorld) -> dict[CellId, Value]:
    """The state of each cell."""
    return {
        cell.id: decode_record(slot_bytes(cell.state, world.read))
        for name in world.effective.workflows
        for cell in world.state.cells.of(name, None)
        if cell.state is not None
    }
