"""Scenario files that read as transcripts: what is done to a world, and what its journal says.

Each file under ``tests/scenarios`` is a list of commands, each followed by what it printed.
``REWRITE=1 pytest tests/test_scenarios.py`` writes the answers anew; then read the diff.

    send SCHEMA JSON [as ID]     an event at ingress
    run                          step until nobody is ready, then seal
    settle N JSON                an ok receipt for the N-th open intent
    fail N CODE | timeout N      a receipt with another status
    forge N FIELD                a receipt with that field changed after signing
    wait DURATION                the wall clock goes on
    restart                      fold the journal into a new kernel
    apply VERSION                the same manifest with new module bytes
    show                         cells, open intents
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aos.core.answers import Admitted, Answer, Duplicate
from aos.core.kernel import Kernel
from aos.core.records import Event, Faulted, Manifest, Receipt, Record, Step, slot_bytes
from aos.core.state import OpenIntent
from aos.values.cbor import decode_record
from aos.values.digests import content_hash
from tests.core.test_isolation import folded, same
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    air,
    ask,
    cbor,
    effect,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

SCENARIOS = Path(__file__).parent / "scenarios"

SHOP, BOOKS = "shop/order@1", "shop/books@1"
CHARGE, TIMER = "shop/charge@1", "sys/timer.set@1"
SECOND = 10**9


def shop(envelope: Envelope) -> Envelope:
    """Charges an order, tries again after a second up to three times, tells the books."""
    event = event_of(envelope)
    value, tag = event["$value"], event["$tag"]
    if tag == "Placed":
        if envelope["state"] is not None:
            return {"state": envelope["state"]}
        state = {"id": value["id"], "cents": value["cents"], "tries": 1, "phase": "charging"}
        return {"state": cbor(state), "effects": [charge(state)], "status": "running"}
    state = state_of(envelope)
    if value["effect"] == TIMER:
        state = {**state, "tries": state["tries"] + 1, "phase": "charging"}
        return {"state": cbor(state), "effects": [charge(state)]}
    if value["status"] == "ok":
        state = {**state, "phase": "paid"}
        paid = emit("shop/Paid@1", {"id": state["id"], "cents": state["cents"]})
        return {"state": cbor(state), "domain_events": [paid], "status": "completed"}
    if state["tries"] == 3:
        return {"state": cbor({**state, "phase": "refused"}), "status": "failed"}
    due = now(envelope) + SECOND
    state = {**state, "phase": "backing off"}
    return {"state": cbor(state), "effects": [ask(TIMER, {"deliver_at_ns": due, "key": None})]}


def charge(state: dict[str, Any]) -> Envelope:
    params = {"id": state["id"], "cents": state["cents"]}
    return ask(CHARGE, params, idempotency_key=state["id"], issuer_ref=f"try {state['tries']}")


def now(envelope: Envelope) -> int:
    context = decode_record(envelope["ctx"])
    assert isinstance(context, dict)
    found = context["now_ns"]
    assert isinstance(found, int)
    return found


def books(envelope: Envelope) -> Envelope:
    """Sums what was paid; a negative amount is its bug, on purpose."""
    event = event_of(envelope)
    if event["cents"] == 666:
        return {"fault": {"kind": "superstition", "message": "666 cents"}}
    state = state_of(envelope) or {"cents": 0, "orders": 0}
    return {
        "state": cbor({"cents": state["cents"] + event["cents"], "orders": state["orders"] + 1})
    }


def make(version: int = 1) -> Any:
    money: dict[str, Any] = {"record": {"id": {"text": {}}, "cents": {"nat": {}}}}
    order: dict[str, Any] = {
        "record": {
            "id": {"text": {}}, "cents": {"nat": {}}, "tries": {"nat": {}}, "phase": {"text": {}},
        }
    }  # fmt: skip
    return air(
        [
            schema("shop/Placed@1", money),
            schema("shop/Paid@1", money),
            schema("shop/Id@1", {"text": {}}),
            schema("shop/Order@1", order),
            schema("shop/Books@1", {"record": {"cents": {"nat": {}}, "orders": {"nat": {}}}}),
            schema("shop/Charge@1", money),
            schema("shop/Charged@1", {"record": {"ref": {"text": {}}}}),
            schema(
                "shop/OrderEvent@1",
                {
                    "variant": {
                        "Placed": {"ref": "shop/Placed@1"},
                        "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                    }
                },
            ),
            effect(CHARGE, "shop/Charge@1", "shop/Charged@1"),
            workflow(
                SHOP, state="shop/Order@1", event="shop/OrderEvent@1", key_schema="shop/Id@1",
                context="sys/WorkflowContext@1", effects=[CHARGE, TIMER],
            ),
            workflow(BOOKS, state="shop/Books@1", event="shop/Paid@1"),
        ],
        [route("shop/Placed@1", SHOP, "id"), route("shop/Paid@1", BOOKS)],
        version=version,
    )  # fmt: skip


class Transcript:
    """One world that does what the lines say and tells what happened in words."""

    def __init__(self) -> None:
        self.world = MemoryWorld(make(), {SHOP: shop, BOOKS: books})
        self.world.seal()
        self.commands: dict[str, Callable[[str], list[str]]] = {
            "send": self.send,
            "run": self.run,
            "settle": self.settle,
            "fail": self.fail,
            "timeout": self.timeout,
            "forge": self.forge,
            "wait": self.wait,
            "restart": self.restart,
            "apply": self.apply,
            "show": self.show,
        }

    def do(self, line: str) -> list[str]:
        command, _, rest = line.partition(" ")
        return self.commands[command](rest)

    def send(self, rest: str) -> list[str]:
        body, _, submission = rest.partition(" as ")
        name, _, value = body.partition(" ")
        return self.answer(self.world.send(name, json.loads(value), submission or None))

    def run(self, _: str) -> list[str]:
        return [self.line(record) for record in self.world.run()]

    def intent(self, number: str) -> OpenIntent:
        return self.world.open()[int(number) - 1]

    def settle(self, rest: str) -> list[str]:
        number, _, payload = rest.partition(" ")
        intent, value = self.intent(number), json.loads(payload)
        if intent.effect.name == TIMER:
            value = {"delivered_at_ns": self.world.now_ns, "key": None}
        return self.answer(self.world.settle(intent, value))

    def fail(self, rest: str) -> list[str]:
        number, code = rest.split()
        return self.answer(self.world.fail(self.intent(number), code))

    def timeout(self, number: str) -> list[str]:
        return self.answer(self.world.fail(self.intent(number), "timeout", status="timeout"))

    def forge(self, rest: str) -> list[str]:
        number, name = rest.split()
        wrong: dict[str, Any] = {
            "intent": content_hash(b"another"),
            "payload": cbor({"ref": "forged"}),
            "signature": bytes(64),
            "executor": "mallory",
            "attempt": 2,
        }
        forged = {name: wrong[name]}
        return self.answer(self.world.settle(self.intent(number), {"ref": "r"}, forge=forged))

    def wait(self, duration: str) -> list[str]:
        self.world.now_ns += int(duration.removesuffix("s")) * SECOND
        return []

    def restart(self, _: str) -> list[str]:
        assert self.world.kernel.pending_records == 0, "restart after run"
        state = folded(self.world)
        same(self.world.state, state)
        self.world.kernel = Kernel(state, runner=self.world.runner, read=self.world.read)
        return [f"{len(state.cells)} cells, {len(state.intents)} open intents"]

    def apply(self, version: str) -> list[str]:
        loaded = make(int(version))
        return self.answer(self.world.apply(loaded, {SHOP: shop, BOOKS: books}))

    def show(self, _: str) -> list[str]:
        cells = [
            f"{self.cell(id)} {cell.status} {self.value(cell.state)}"
            for id, cell in self.world.state.cells.items()
        ]
        return cells + [
            f"open {i + 1}: {each.effect.name} for {self.cell(each.cell)} ({each.issuer_ref})"
            for i, each in enumerate(self.world.open())
        ]

    def answer(self, answer: Answer) -> list[str]:
        if isinstance(answer, Admitted):
            return [f"record {answer.seq}"]
        if isinstance(answer, Duplicate):
            return [f"record {answer.seq}, as before"]
        return [
            f"refused: {answer.rule.value}",
            *(f"  {self.cell(each.cell)}: {each.kind}, {each.detail}" for each in answer.blockers),
        ]

    def cell(self, id: tuple[str, bytes]) -> str:
        workflow, key = id
        return f"{workflow} {decode_record(key)!s}" if key else workflow

    def value(self, value: Any) -> str:
        if value is None:
            return "-"
        return json.dumps(decode_record(slot_bytes(value, self.world.read)))

    def line(self, record: Record) -> str:
        match record:
            case Event():
                to = ", ".join(self.cell(id) for id in record.to) or "nobody"
                return f"{record.seq} event {record.schema} -> {to}"
            case Step():
                parts = [f"{record.seq} step {self.cell(record.cell)} on {record.entry[0]}"]
                parts += [f"{record.status} {self.value(record.state)}"]
                parts += [
                    f"emits {event.schema} -> {self.cell(event.to[0])}" for event in record.events
                ]
                parts += [f"asks {each.effect} ({each.issuer_ref})" for each in record.intents]
                return "; ".join(parts)
            case Faulted():
                fault = record.fault
                return (
                    f"{record.seq} fault {self.cell(record.cell)} on {record.entry[0]}; "
                    f"{fault.kind.value}: {fault.message}"
                )
            case Receipt():
                return (
                    f"{record.seq} receipt {record.effect} {record.status} -> "
                    f"{self.cell(record.cell)} {record.outcome}"
                )
            case Manifest():
                return f"{record.seq} manifest by {record.principal}"
            case _:
                return f"{record.seq} {record.KIND}"


def played(text: str) -> str:
    """Do every command of a transcript and return it with what it says now."""
    transcript = Transcript()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *(f"  {each}" for each in transcript.do(line.removeprefix("> ")))]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_scenario_plays_as_it_is_written(path: Path) -> None:
    written = path.read_text("utf-8")
    found = played(written)
    if os.environ.get("REWRITE") == "1":
        path.write_text(found, "utf-8")
    assert found == written
