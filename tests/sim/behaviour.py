"""The modules of a simulated world, as Python functions that read nothing but their input's bytes.

Each draws from the hash of its input. It changes its state, emits events, orders effects, cancels
work, inspects the world, ends or deletes itself; now and then it breaks one rule of its output.
"""

from __future__ import annotations

import random
from typing import Any, Final

from blake3 import blake3

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import Call, Ran
from tests.memory_world import START_NS
from tests.sim.naive import TIMER, cbor, plain
from tests.sim.plan import CANCELS, PAYS, SECOND, Flow, Plan, some_event

TRAPS: Final = (
    "trap",
    "trap",
    "fuel",
    "memory",
    "output_too_large",
    "stack",
    "host_memory",
    "watchdog",
)
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"

Outcome = tuple[bytes | None, str | None, int]


class Modules:
    """All modules of one world, as the model and the kernel run them. Runs are remembered: the same
    input is given to both, again on the second run, and again in replay."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._flows: dict[bytes, tuple[Plan, Flow]] = {}
        self._known: dict[tuple[bytes, bytes, int], Outcome] = {}
        self.last: Call | None = None

    def add(self, plan: Plan) -> None:
        for flow in plan.flows:
            self._flows[plan.loaded.effective.workflows[flow.name].module.hash] = (plan, flow)

    def outcome(self, module: bytes, given: bytes, most: int) -> Outcome:
        """(output, kind of fault, fuel). Fuel is a byte of input each."""
        place = (module, given, most)
        if place not in self._known:
            self._known[place] = self._decide(module, given, most)
        return self._known[place]

    def _decide(self, module: bytes, given: bytes, most: int) -> Outcome:
        plan, flow = self._flows[module]
        chance = random.Random(blake3(b"%d %s" % (self.seed, given)).digest())
        try:
            output = _Step(plan, flow, plain(given), chance).output()
        except _Trap as trap:
            return None, trap.kind, len(given)
        if len(output) > most:
            return None, "output_too_large", len(given)
        return output, None, len(given)

    def run(self, call: Call) -> Ran:
        """As a ``Runner`` of the kernel."""
        self.last = call
        output, kind, fuel = self.outcome(call.module, call.input, call.output_bytes)
        fault = None if kind is None else Fault(kind=FaultKind(kind), message=f"it ran into {kind}")
        return Ran(output=output, fault=fault, fuel=fuel, pages=1)


class _Trap(Exception):
    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _Step:
    """One step while it is made up."""

    def __init__(self, plan: Plan, flow: Flow, envelope: Any, chance: random.Random) -> None:
        self.plan = plan
        self.flow = flow
        self.chance = chance
        self.key = envelope["event"].get("key")
        fresh: Any = {"n": 0, "log": [], "refs": [], "pad": b""}
        self.state: Any = fresh
        if envelope["state"] is not None:
            self.state = plain(envelope["state"])
        self.is_new = envelope["state"] is None
        event: Any = plain(envelope["event"]["value"])
        self.tag = event.get("$tag", "")
        self.value: Any = event.get("$value", event)
        # How often things are tried; the first event is more eager than what follows from it.
        self.zeal = 0.35 if self.tag.startswith("on") or flow.is_single else 0.2

    def rarely(self, often: float) -> bool:
        return self.chance.random() < often

    def output(self) -> bytes:
        if self.rarely(self.flow.trouble):
            return self._trouble()
        return self._spell(self._sound())

    def _spell(self, output: Any) -> bytes:
        data = cbor(output)
        return SELF_DESCRIBED + data if self.rarely(0.05) else data

    def _sound(self) -> Any:
        """An output that mostly fits; bounds and the state of the world may say otherwise."""
        chance = self.chance
        emits = [self._emit() for _ in range(chance.choice([1, 1, 2, 3])) if self.rarely(self.zeal)]
        asks = []
        if self.flow.effects:
            asks = [self._ask() for _ in range(chance.choice([1, 1, 2, 3])) if self.rarely(0.5)]
        output: Any = {"state": self._state()}
        if self.rarely(0.06):
            output["state"] = None
            asks = asks if self.rarely(0.2) else []
        if emits or self.rarely(0.1):
            output["domain_events"] = emits
        if asks or self.rarely(0.1):
            output["effects"] = asks
        if self.rarely(0.25):
            output["status"] = chance.choice(["running", "running", "completed", "failed", None])
        if self.flow.annotations and self.rarely(0.4):
            output["ann"] = cbor({"why": self.tag, **({} if self.rarely(0.5) else {"n": 1})})
        return output

    def _state(self) -> bytes:
        word = self.tag or "single"
        status = self.value.get("status") if isinstance(self.value, dict) else None
        state: Any = {
            "n": self.state["n"] + 1,
            "log": [*self.state["log"], f"{word} {status or ''}"][-3:],
            "refs": self._refs()[-2:],
            "pad": self.state["pad"]
            if self.rarely(0.8)
            else bytes(self.chance.choice([0, 40, 1500, 2900])),
        }
        if self.flow.is_wide:
            state["extra"] = self.chance.choice([None, 7])
        return cbor(state)

    def _refs(self) -> list[str]:
        return [each for each in (*self.state["refs"], self._ref()) if each is not None]

    def _ref(self) -> str | None:
        """An intent that the event names: a sender's, or of a stream frame, which is open."""
        value = self.value
        if isinstance(value, dict) and "$value" in value:
            value = value["$value"]
        if not isinstance(value, dict):
            return None
        found = value.get("intent_id") if self.tag == "stream" else value.get("ref")
        return found if isinstance(found, str) else None

    # Events

    def _emit(self) -> Any:
        event = self.chance.choice(self.plan.events)
        value = some_event(self.plan, event, self.chance)
        emitted: Any = {"schema": event, "value": cbor(value)}
        if event != "s/F@1" and self.rarely(0.15):
            inside = value.get("$value", value)
            emitted["key"] = cbor(inside.get("k", "a") if isinstance(inside, dict) else "a")
        return emitted

    # Effects

    def _ask(self) -> Any:
        cancels = [each for each in self.flow.effects if "cancel" in each]
        has_reason = bool(cancels and self._refs()) and self.rarely(0.4)
        effect = self.chance.choice(cancels if has_reason else self.flow.effects)
        names = ("kind", "params_cbor") if self.rarely(0.2) else ("effect", "params")
        asked: Any = dict(zip(names, (effect, self._spell(self._params(effect))), strict=True))
        if self.rarely(0.35):
            asked["idempotency_key"] = self.chance.choice(["k", "k", "l", b"k", None])
        if self.rarely(0.5):
            asked["issuer_ref"] = self.chance.choice(["r", "r", "s", None])
        return asked

    def _params(self, effect: str) -> Any:
        chance = self.chance
        if effect in PAYS:
            params: Any = {"n": chance.randrange(2), "memo": bytes(chance.choice([0, 0, 0, 1400]))}
            return params if self.rarely(0.8) else {**params, "why": "so"}
        if effect == TIMER:
            return {"deliver_at_ns": START_NS + chance.randrange(30) * (SECOND // 2), "key": None}
        if effect in CANCELS:
            return self._canceling()
        if effect == "sys/blob.put@1":
            return {"bytes": bytes(chance.choice([0, 3, 1200]))}
        if effect == "sys/blob.get@1":
            return {"blob_ref": f"blake3:{bytes(32).hex()}"}
        consistency = chance.choice([None, None, None, "head", "latest"])
        if effect == "sys/introspect.manifest@1":
            return {"consistency": consistency}
        if effect == "sys/introspect.journal_head@1":
            return {}
        workflow = chance.choice([*(flow.name for flow in self.plan.flows), "s/none@1"])
        key = chance.choice([self.key, cbor("a"), cbor(1), None])
        if effect == "sys/introspect.workflow_state@1":
            return {"workflow": workflow, "key": key, "consistency": consistency}
        return {
            "workflow": workflow, "after": chance.choice([None, None, key]),
            "limit": chance.choice([None, 0, 1, 2]), "consistency": consistency,
        }  # fmt: skip

    def _canceling(self) -> Any:
        chance = self.chance
        if self._refs() and self.rarely(0.6):
            return {"intent": chance.choice(self._refs())}
        if self.rarely(0.8):
            return {"issuer_ref": chance.choice(["r", "s"])}
        return chance.choice(
            [
                {},
                {"intent": f"sha256:{bytes(32).hex()}"},
                {"intent": f"blake3:{bytes(32).hex()}", "issuer_ref": "r"},
                {"intent": f"blake3:{bytes(32).hex()}"},
            ]
        )

    # Outputs that break a rule

    def _trouble(self) -> bytes:
        chance = self.chance
        if self.rarely(0.25):
            raise _Trap(chance.choice(TRAPS))
        output = self._sound()
        if output["state"] is None:
            output["state"] = self._state()
        if self.rarely(0.3):
            return self._malformed(output)
        emits, asks = output.setdefault("domain_events", []), output.setdefault("effects", [])
        match chance.randrange(14):
            case 0:
                output["state"] = cbor({"n": 1})
            case 1:
                output["state"] = SELF_DESCRIBED + output["state"]
            case 2:
                output["state"] = cbor({**self.state, "pad": bytes(3500)})
            case 3:
                output["ann"] = cbor({"why": 5})
            case 4:
                emits.append({"schema": "s/Nope@1", "value": cbor(1)})
            case 5:
                emits.append({"schema": "sys/EffectError@1", "value": cbor(1)})
            case 6:
                emits.append({"schema": "s/A@1", "value": cbor(chance.choice([5, {"k": "a"}]))})
            case 7:
                value = some_event(self.plan, "s/A@1", chance)
                emits.append({"schema": "s/A@1", "value": cbor(value), "key": cbor("z")})
            case 8:
                emits.append(
                    {"schema": "s/V@1", "value": cbor({"$tag": "Right", "$value": {"n": 1}})}
                )
            case 9:
                asks.append({"effect": "s/undeclared@1", "params": cbor(1)})
            case 10 if self.flow.effects:
                asks.append({"effect": chance.choice(self.flow.effects), "params": cbor({"x": 1})})
            case 11:
                emits += [self._emit() for _ in range(5)]
            case 12 if self.flow.effects:
                asks += [self._ask() for _ in range(5)]
            case _:
                output = {
                    "state": None,
                    "effects": asks or [{"effect": TIMER, "params": cbor(1)}],
                }
        return cbor(output)

    def _malformed(self, output: Any) -> bytes:
        said = {"kind": "k", "message": "m" * self.chance.choice([1, 1, 4096])}
        if self.rarely(0.5):
            said["detail"] = b"d" * self.chance.choice([1, 1, 4097])  # type: ignore[assignment]  # a map of anything
        ask = {"effect": TIMER, "params": cbor(1)}
        wrong: list[Any] = [
            {"fault": said}, {"fault": said}, {"fault": said}, {**output, "fault": said},
            {**output, "more": 1}, {"status": "running"}, {**output, "status": "done"},
            {**output, "effects": [{**ask, "kind": TIMER}]},
            {**output, "effects": [{"effect": TIMER}]},
            {**output, "effects": [{**ask, "issuer_ref": "r" * 257}]},
            {**output, "effects": [{**ask, "idempotency_key": 5}]},
            {**output, "domain_events": [{"schema": "s/A@1"}]}, {**output, "ann": "text"},
            [output], {**output, "domain_events": 5}, {**output, "fault": "text"},
        ]  # fmt: skip
        if self.rarely(0.2):
            return self.chance.choice(
                [b"", b"\xff", cbor(output) + b"\x00", b"\xa1\x65state\xf9\x00\x00"]
            )
        return cbor(self.chance.choice(wrong))
