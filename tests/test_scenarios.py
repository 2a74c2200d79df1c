"""Scenario files that read as transcripts: commands to a world, and the records they cause.

Each file under ``tests/scenarios`` is a list of commands, each followed by its output.
``REWRITE=1 pytest tests/test_scenarios.py`` rewrites the output; then read the diff.

    send SCHEMA JSON [as ID]     an event at ingress
    run                          step until no cell is ready, then seal
    settle N JSON [by KEY]       an ok receipt for the N-th open intent, signed by the node, or with
                                 key A or B by the executor of charges and parcels
    fail N CODE | timeout N      a receipt with another status
    forge N FIELD                a receipt with that field changed after signing
    frame N NUMBER KIND          a stream frame of the N-th open intent
    attempt N NUMBER             an attempt of the N-th open intent is begun
    lose N NUMBER                it is unknown how that attempt ended
    cancel N                     the operator cancels the N-th open intent
    retry WORKFLOW [KEY]         the operator resumes a failed cell
    skip WORKFLOW [KEY]          the same, without the entry that it failed on
    wait DURATION                the wall clock advances
    restart                      fold the journal into a new kernel
    apply VERSION [mended] [key KEY [revokes KEY]]
                                 the same manifest with new module bytes; books without their bug;
                                 an executor with a key of its own
    show                         cells, open intents
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Duplicate
from aos.core.journal.records import (
    Attempt,
    Control,
    Event,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
    Stream,
    slot_bytes,
)
from aos.core.state.cell import OpenIntent
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash
from tests.core.decide.test_isolation import folded, same
from tests.memory_world import (
    WORLD_KEY,
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

SHOP, BOOKS, PARCEL = "shop/order@1", "shop/books@1", "shop/parcel@1"
CHARGE, SHIP, TIMER = "shop/charge@1", "shop/ship@1", "sys/timer.set@1"
CANCEL = {"charging": "sys/effect.cancel@1", "backing off": "sys/timer.cancel@1"}
SECOND = 10**9
KEYS = {"A": SigningKey(bytes([5]) * 32), "B": SigningKey(bytes([6]) * 32)}


def shop(envelope: Envelope) -> Envelope:
    """Charges an order, tries again after a second up to three times, tells the books. Asked to
    cancel, it cancels what it waits for, if that is not too late."""
    event = event_of(envelope)
    value, tag = event["$value"], event["$tag"]
    if tag == "Placed":
        if envelope["state"] is not None:
            return {"state": envelope["state"]}
        state = {"id": value["id"], "cents": value["cents"], "tries": 1, "phase": "charging"}
        return {"state": cbor(state), "effects": [charge(state)], "status": "running"}
    state = state_of(envelope)
    if tag == "Cancel":
        ref = f"try {state['tries']}" if state["phase"] == "charging" else "backoff"
        params = {"intent": None, "issuer_ref": ref}
        asked = ask(CANCEL.get(state["phase"], CANCEL["charging"]), params, issuer_ref="cancel")
        return {"state": envelope["state"], "effects": [asked]}
    if value["effect"] in CANCEL.values():
        return {"state": envelope["state"]}
    if value["status"] == "canceled":
        return {"state": cbor({**state, "phase": "canceled"}), "status": "completed"}
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
    timer = ask(TIMER, {"deliver_at_ns": due, "key": None}, issuer_ref="backoff")
    return {"state": cbor(state), "effects": [timer]}


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
    """Sums the payments; its deliberate bug is a fault on 666 cents."""
    event = event_of(envelope)
    if event["cents"] == 666:
        return {"fault": {"kind": "superstition", "message": "666 cents"}}
    state = state_of(envelope) or {"cents": 0, "orders": 0}
    return {
        "state": cbor({"cents": state["cents"] + event["cents"], "orders": state["orders"] + 1})
    }


def mended_books(envelope: Envelope) -> Envelope:
    if event_of(envelope)["cents"] == 666:
        state = state_of(envelope) or {"cents": 0, "orders": 0}
        return {"state": cbor({"cents": state["cents"] + 666, "orders": state["orders"] + 1})}
    return books(envelope)


def parcel(envelope: Envelope) -> Envelope:
    """Sends a parcel, once only; keeps where it was seen last."""
    event = event_of(envelope)
    value = event["$value"]
    if event["$tag"] == "Send":
        asked = ask(SHIP, {"id": value["id"]}, issuer_ref="ship")
        return {"state": cbor({"seen": "here"}), "effects": [asked]}
    if event["$tag"] == "Frame":
        return {"state": cbor({"seen": f"{value['kind']} {value['seq']}"})}
    if value["status"] == "ok":
        return {"state": cbor({"seen": "delivered"}), "status": "completed"}
    error: Any = decode_record(value["receipt_payload"])
    code = error["code"]
    return {"state": cbor({"seen": f"error {code}"}), "status": "failed"}


def make(version: int = 1, executors: list[dict[str, Any]] | None = None) -> Any:
    more: dict[str, Any] = {} if executors is None else {"executors": executors}
    named: dict[str, Any] = {"record": {"id": {"text": {}}}}
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
            schema("shop/CancelOrder@1", named),
            schema("shop/Send@1", named),
            schema("shop/Seen@1", {"record": {"seen": {"text": {}}}}),
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
                        "Cancel": {"ref": "shop/CancelOrder@1"},
                        "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                    }
                },
            ),
            schema(
                "shop/ParcelEvent@1",
                {
                    "variant": {
                        "Send": {"ref": "shop/Send@1"},
                        "Frame": {"ref": "sys/EffectStreamFrame@1"},
                        "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
                    }
                },
            ),
            effect(CHARGE, "shop/Charge@1", "shop/Charged@1"),
            effect(SHIP, "shop/Send@1", "shop/Charged@1", delivery="at_most_once"),
            workflow(
                SHOP, state="shop/Order@1", event="shop/OrderEvent@1", key_schema="shop/Id@1",
                context="sys/WorkflowContext@1", effects=[CHARGE, TIMER, *CANCEL.values()],
            ),
            workflow(
                PARCEL, state="shop/Seen@1", event="shop/ParcelEvent@1", key_schema="shop/Id@1",
                effects=[SHIP],
            ),
            workflow(BOOKS, state="shop/Books@1", event="shop/Paid@1"),
        ],
        [
            route("shop/Placed@1", SHOP, "id"), route("shop/Paid@1", BOOKS),
            route("shop/CancelOrder@1", SHOP, "id"), route("shop/Send@1", PARCEL, "id"),
        ],
        version=version, **more,
    )  # fmt: skip


def key_text(key: SigningKey) -> str:
    return f"ed25519:{bytes(key.verify_key).hex()}"


def executors(key: str, revokes: str | None) -> list[dict[str, Any]]:
    """The node for timers, and who charges and ships with a key of its own."""
    revoked = {} if revokes is None else {"revoked_keys": [key_text(KEYS[revokes])]}
    return [
        {"name": "node", "public_key": key_text(WORLD_KEY), "effects": [TIMER]},
        {
            "name": "test", "public_key": key_text(KEYS[key]), "effects": [CHARGE, SHIP],
            **revoked,
        },
    ]  # fmt: skip


MODULES = {SHOP: shop, BOOKS: books, PARCEL: parcel}


class Transcript:
    """One world that executes the lines and reports the results as text."""

    def __init__(self) -> None:
        self.world = MemoryWorld(make(), MODULES)
        self.world.seal()
        self.commands: dict[str, Callable[[str], list[str]]] = {
            "send": self.send,
            "run": self.run,
            "settle": self.settle,
            "fail": self.fail,
            "timeout": self.timeout,
            "forge": self.forge,
            "frame": self.frame,
            "attempt": lambda rest: self.attempt(rest, "begun"),
            "lose": lambda rest: self.attempt(rest, "lost"),
            "cancel": self.cancel,
            "retry": lambda rest: self.go_on(rest, "retry"),
            "skip": lambda rest: self.go_on(rest, "skip"),
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
        number, _, more = rest.partition(" ")
        payload, _, by = more.partition(" by ")
        intent, value = self.intent(number), json.loads(payload)
        if intent.effect.name == TIMER:
            value = {"delivered_at_ns": self.world.now_ns, "key": None}
        given = self.world.receipt(intent, value)
        if by:
            key = KEYS[by]
            given = replace(given, executor="test", key_id=bytes(key.verify_key))
            signature = key.sign(given.message(self.world.state.world)).signature
            given = replace(given, signature=signature)
        return self.answer(self.world.kernel.admit(given, self.world.stamp()))

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

    def frame(self, rest: str) -> list[str]:
        number, seq, kind = rest.split()
        answer = self.world.stream(self.intent(number), int(seq), frame_kind=kind)
        return self.answer(answer)

    def attempt(self, rest: str, phase: str) -> list[str]:
        number, attempt = rest.split()
        return self.answer(self.world.attempt(self.intent(number), int(attempt), phase))

    def cancel(self, number: str) -> list[str]:
        return self.answer(self.world.control("cancel", intent=self.intent(number).intent))

    def go_on(self, rest: str, action: str) -> list[str]:
        workflow, _, key = rest.partition(" ")
        cell = workflow, encode(key) if key else b""
        return self.answer(self.world.control(action, cell=cell))

    def wait(self, duration: str) -> list[str]:
        self.world.now_ns += int(duration.removesuffix("s")) * SECOND
        return []

    def restart(self, _: str) -> list[str]:
        assert self.world.kernel.pending_records == 0, "restart after run"
        state = folded(self.world)
        same(self.world.state, state)
        self.world.restart()
        return [f"{len(state.cells)} cells, {len(state.intents)} open intents"]

    def apply(self, rest: str) -> list[str]:
        version, *words = rest.split()
        modules = MODULES | {BOOKS: mended_books} if "mended" in words else MODULES
        given = None
        if "key" in words:
            revokes = words[words.index("revokes") + 1] if "revokes" in words else None
            given = executors(words[words.index("key") + 1], revokes)
        return self.answer(self.world.apply(make(int(version), given), modules))

    def show(self, _: str) -> list[str]:
        cells = [
            f"{self.cell(id)} {cell.status} {self.value(cell.state)}"
            for id, cell in sorted(self.world.state.cells.items(), key=lambda each: each[0])
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
            case KernelReceipt():
                return (
                    f"{record.seq} the kernel's receipt {record.effect} {record.status} -> "
                    f"{self.cell(record.cell)} {record.outcome}"
                )
            case Stream():
                return (
                    f"{record.seq} frame {record.frame_kind} {record.frame_seq} of {record.effect} "
                    f"-> {self.cell(record.cell)}"
                )
            case Attempt():
                return (
                    f"{record.seq} attempt {record.attempt} {record.phase} for "
                    f"{self.cell(record.cell)}"
                )
            case Control():
                of = "" if record.cell is None else f" {self.cell(record.cell)}"
                return f"{record.seq} {record.action}{of} by {record.principal}"
            case Manifest():
                return f"{record.seq} manifest by {record.principal}"
            case _:
                return f"{record.seq} {record.KIND}"


def played(text: str) -> str:
    """Run every command of a transcript and return it with the current output."""
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
