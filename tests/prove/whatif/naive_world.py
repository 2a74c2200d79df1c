"""A world under version 2 that is given what happened to a world of version 1: the truth that a
shadow must tell (spec/shadow.md, SH-60).

It is written apart from ``aos.prove.whatif``: a whole kernel, its own receipts with signatures, and
a list of what has been answered.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from aos.core.journal.records import CellId, Event, Receipt, Stamp, slot_bytes, slot_hash
from aos.core.state.cell import OpenIntent
from aos.manifest.load import Loaded
from aos.manifest.names import TIMER
from aos.values.cbor import Value, decode_record, encode
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Module,
    ask,
    emit,
    event_of,
    state_of,
)
from tests.prove.journals import CHARGE, LEDGER, ORDER, PAID, PLACED, SECOND, shop_with

Key = tuple[CellId, str, Any, Any]
CANCEL = "sys/timer.cancel@1"


@dataclass(frozen=True)
class Rule:
    """How a version of the order behaves: attempts, the pause between two of them, a deadline after
    which it gives up, and whether it tells the ledger of refusals."""

    tries: int = 2
    pause_ns: int = 2 * SECOND
    deadline_ns: int = 0
    tells_refusals: bool = False
    factor: int = 1

    @staticmethod
    def drawn(chance: random.Random) -> Rule:
        return Rule(
            tries=chance.randint(1, 4),
            pause_ns=chance.choice([0, 1, SECOND, 3 * SECOND]),
            deadline_ns=chance.choice([0, 0, 2 * SECOND, 20 * SECOND]),
            tells_refusals=chance.random() < 0.5,
            factor=chance.choice([1, 1, 2]),
        )

    def modules(self) -> dict[str, Module]:
        return {ORDER: self.order, LEDGER: self.ledger}

    def order(self, envelope: Envelope) -> Envelope:
        state = state_of(envelope) or {"phase": "new", "tries": 0, "amount": 0, "note": ""}
        event = event_of(envelope)
        now: int = decode_record(envelope["ctx"])["logical_now_ns"]  # type: ignore[index, assignment, call-overload]
        value = event["$value"]
        if event["$tag"] == "placed":
            if state["phase"] != "new":
                return _left(state)
            return self._charging({**state, "amount": value["amount"]}, first_at=now)
        if state["phase"] in {"paid", "refused", "late"} or value["effect"] == CANCEL:
            return _left(state)
        if value["effect"] == TIMER:
            if value["issuer_ref"] == "deadline":
                return _ended(state, "late", "failed")
            return self._charging(state)
        if value["status"] == "ok":
            return {
                **_ended(state, "paid", "completed"),
                "domain_events": [_paid(state["amount"] * self.factor)],
                "effects": self._without_deadline(),
            }
        if state["tries"] >= self.tries:
            told = [_paid(0)] if self.tells_refusals else []
            ended = _ended(state, "refused", "failed")
            return {**ended, "domain_events": told, "effects": self._without_deadline()}
        wait = ask(TIMER, {"deliver_at_ns": now + self.pause_ns, "key": None}, issuer_ref="retry")
        return {"state": encode({**state, "phase": "waiting"}), "effects": [wait]}

    def _charging(self, state: Envelope, *, first_at: int | None = None) -> Envelope:
        tries = state["tries"] + 1
        params: Value = {"amount": state["amount"], "memo": ""}
        effects = [ask(CHARGE, params, idempotency_key=f"charge-{tries}")]
        if first_at is not None and self.deadline_ns:
            due: Value = {"deliver_at_ns": first_at + self.deadline_ns, "key": None}
            effects.append(ask(TIMER, due, issuer_ref="deadline"))
        after: Value = {**state, "phase": "charging", "tries": tries}
        return {"state": encode(after), "effects": effects}

    def _without_deadline(self) -> list[Envelope]:
        if not self.deadline_ns:
            return []
        return [ask(CANCEL, {"intent": None, "issuer_ref": "deadline"})]

    def ledger(self, envelope: Envelope) -> Envelope:
        state = state_of(envelope) or {"total": 0, "count": 0}
        amount = event_of(envelope)["amount"]
        total: Value = {"total": state["total"] + amount, "count": state["count"] + 1}
        return {"state": encode(total)}


def _left(state: Value) -> Envelope:
    return {"state": encode(state)}


def _ended(state: Envelope, phase: str, status: str) -> Envelope:
    return {"state": encode({**state, "phase": phase}), "status": status}


def _paid(amount: int) -> Envelope:
    return emit(PAID, {"customer": "c-1", "amount": amount})


def versioned(version: int) -> Loaded:
    return shop_with(version, effects=(CHARGE, TIMER, CANCEL))


def recorded_world(seed: int, rule: Rule) -> MemoryWorld:
    """A world of version 1 with a few orders, whose charges are answered late and sometimes with an
    error, and whose timers fire when they are due."""
    chance = random.Random(f"shadow {seed}")
    world = MemoryWorld(versioned(1), rule.modules())
    world.blobs.update(world.loaded.modules)
    for number in range(chance.randint(1, 6)):
        _pass(world, chance, chance.choice([0, SECOND, 5 * SECOND]))
        value: Value = {"order_id": f"o-{number % 4}", "amount": chance.randint(1, 9)}
        world.send(PLACED, value)
        world.run()
        for _ in range(chance.randint(0, 3)):
            _answer_one(world, chance)
    for _ in range(chance.randint(0, 12)):
        _pass(world, chance, chance.choice([SECOND, 4 * SECOND]))
        _answer_one(world, chance)
    _pass(world, chance, 0)
    return world


def _answer_one(world: MemoryWorld, chance: random.Random) -> None:
    open_ones = [each for each in world.open() if each.effect.name == CHARGE]
    if not open_ones:
        return
    intent = chance.choice(open_ones)
    if chance.random() < 0.5:
        world.fail(intent, "declined")
    else:
        world.settle(intent, {"id": f"ch-{chance.randint(0, 99)}"})
    world.run()


def _pass(world: MemoryWorld, chance: random.Random, span_ns: int) -> None:
    goal = world.now_ns + span_ns
    while (due := first_due(world)) is not None and due[0] <= goal:
        world.now_ns = max(world.now_ns, due[0] + chance.choice([0, 0, SECOND // 10]))
        world.settle(due[1], {"delivered_at_ns": world.now_ns + 1_000, "key": None})
        world.run()
    world.now_ns = max(world.now_ns, goal)


def first_due(world: MemoryWorld) -> tuple[int, OpenIntent] | None:
    """The open timer that is due first."""
    timers = []
    for order, each in enumerate(world.open()):
        if each.effect.name == TIMER:
            params: Any = decode_record(slot_bytes(each.params, world.read))
            timers.append((params["deliver_at_ns"], order, each))
    if not timers:
        return None
    due, _, intent = min(timers, key=lambda each: each[:2])
    return due, intent


@dataclass
class Told:
    """The inputs of version 1, the intents that it opened, in order, and those that are open at its
    end."""

    inputs: list[Event | Receipt] = field(default_factory=list)
    asked: dict[Key, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    open: set[bytes] = field(default_factory=set)


class TrueWorld(MemoryWorld):
    """Version 2, given the events, times and answers of version 1. ``script`` answers the charges
    that version 1 never asked for."""

    told: Told
    script: Callable[[OpenIntent], Value] | None = None

    def given(self, told: Told, script: Callable[[OpenIntent], Value] | None) -> None:
        self.told, self.script = told, script
        answers = {each.intent: each for each in told.inputs if isinstance(each, Receipt)}
        self.place: dict[bytes, bytes] = {}  # an intent of version 1 -> ours
        self.ours: dict[bytes, bytes] = {}
        self.came: dict[bytes, Receipt] = {}
        self.waiting = {key: list(hashes) for key, hashes in told.asked.items()}
        self.seen: set[bytes] = set()
        self.answers = answers
        self.asked_before: dict[bytes, int] = {}
        for each in told.inputs:
            self._until(each.stamp.ns)
            self.now_ns = each.stamp.ns - 1_000
            if isinstance(each, Event):
                value: Any = decode_record(slot_bytes(each.value, self.read))
                self.send(each.schema, value)
            else:
                self.came[each.intent] = each
                ours = self.place.get(each.intent)
                intent = None if ours is None else self.state.intents.get(ours)  # type: ignore[call-overload]
                if intent is not None:
                    self._settle_as(intent, each)
                else:
                    self.state.clock_ns = max(self.state.clock_ns, each.stamp.ns)
            self._rest()

    def _settle_as(self, intent: OpenIntent, receipt: Receipt) -> None:
        payload: Any = decode_record(slot_bytes(receipt.payload, self.read))
        answer = self.settle(intent, payload, status=receipt.status)
        assert type(answer).__name__ == "Admitted", answer

    def _until(self, now_ns: int) -> None:
        while True:
            alone = [each for each in self._timers() if each[0] <= now_ns]
            if not alone:
                return
            due, _, intent = min(alone, key=lambda each: each[:2])
            at_ns = max(due, self.state.clock_ns)
            self._fire(intent, at_ns)
            self._rest()

    def _timers(self) -> list[tuple[int, int, OpenIntent]]:
        """The open timers that no receipt of version 1 fires. One that is open in version 1, too,
        stays open until the end: also if it is due, and no process has fired it."""
        found = []
        for order, each in enumerate(self.open()):
            theirs = self.ours.get(each.intent)
            is_theirs = theirs in self.answers or theirs in self.told.open
            if each.effect.name == TIMER and not is_theirs:
                params: Any = decode_record(slot_bytes(each.params, self.read))
                found.append((params["deliver_at_ns"], order, each))
        return found

    def _fire(self, intent: OpenIntent, at_ns: int) -> None:
        self.now_ns = at_ns - 1_000
        self.settle(intent, {"delivered_at_ns": at_ns, "key": None})

    def _rest(self) -> None:
        """Run, answer what has an answer already, fire what is due, until nothing is left."""
        while True:
            self.run()
            if not (self._learn() or self._fire_due()):
                return

    def _learn(self) -> bool:
        for intent in self.open():
            if intent.intent in self.seen:
                continue
            self.seen.add(intent.intent)
            key = intent.cell, intent.effect.name, intent.params_hash, intent.key
            known = self.waiting.get(key)
            if known:
                theirs = known.pop(0)
                self.place[theirs], self.ours[intent.intent] = intent.intent, theirs
                if theirs in self.came:
                    self._at_once(intent, self.came[theirs])
                    return True
            elif self.script is not None and intent.effect.name == CHARGE:
                self.now_ns = self.state.clock_ns - 1_000
                self.settle(intent, self.script(intent))
                return True
        return False

    def _at_once(self, intent: OpenIntent, receipt: Receipt) -> None:
        self.now_ns = self.state.clock_ns - 1_000
        self._settle_as(intent, receipt)

    def _fire_due(self) -> bool:
        due = [each for each in self._timers() if each[0] <= self.state.clock_ns]
        if not due:
            return False
        self._fire(min(due, key=lambda each: each[:2])[2], self.state.clock_ns)
        return True

    def stamp(self) -> Stamp:
        return replace(super().stamp(), entropy=bytes(64))


def told_by(world: MemoryWorld) -> Told:
    """Read the inputs of version 1, and its intents, from its journal."""
    told = Told()
    for record in world.records():
        if isinstance(record, Event | Receipt):
            told.inputs.append(record)
        for intent in getattr(record, "intents", ()):
            opened = _opened(world, record, intent)
            told.asked[opened].append(intent.intent)
    told.open.update(world.state.intents)
    return told


def _opened(world: MemoryWorld, record: Any, intent: Any) -> Key:
    return record.cell, intent.effect, slot_hash(intent.params), intent.key
