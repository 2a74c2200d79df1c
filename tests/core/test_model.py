"""The core does what the naive model says, command by command, and the journal holds just that.

A play is a list of commands: events with scripts for the modules, steps, receipts in any order
(again, late, forged), clocks that jump back, new manifests, restarts. After each command everything
that can be seen of the world is compared with the model; at the end the journal is folded again,
and the whole play is repeated and must give the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from aos.core import admit as admit_module
from aos.core import fold as fold_module
from aos.core.answers import Admitted, Answer, Duplicate, Refusal
from aos.core.faults import FaultKind
from aos.core.inputs import EventInput, ManifestInput
from aos.core.kernel import Kernel
from aos.core.records import (
    CellId,
    Event,
    Faulted,
    Manifest,
    Receipt,
    Record,
    Slot,
    Step,
    slot_bytes,
)
from aos.core.state import OpenIntent
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash
from tests.core.reference import Ask, Emit, Id, Limits, Model, Name, Output, Summary, World
from tests.core.test_isolation import folded, same
from tests.memory_world import (
    OPERATOR,
    OPERATOR_KEY,
    START_NS,
    Envelope,
    MemoryWorld,
    Trap,
    air,
    effect,
    route,
    schema,
    state_of,
    workflow,
)

CELL, TWIN, TAP = "m/cell@1", "m/twin@1", "m/tap@1"
DO, NOTE, FREE, NOPE = "m/Do@1", "m/Note@1", "m/Free@1", "m/Nope@1"
EFFECTS = {"pay": "m/pay@1", "timer": "sys/timer.set@1", "nope": "m/nope@1"}
ARMS = {
    "envelope": ("Receipt", "sys/EffectReceiptEnvelope@1"),
    "rejected": ("Rejected", "sys/EffectReceiptRejected@1"),
    "fired": ("Fired", "sys/TimerFired@1"),
}
ARM_SETS = [("envelope",), ("envelope", "rejected"), ("fired",), ("fired", "rejected")]
SCHEMAS = {"m/Paid@1": "receipt", "sys/TimerSetReceipt@1": "receipt", "sys/EffectError@1": "error"}
SECOND = 10**9


# The family of manifests: which arms, which scope, and three versions of each. The second has no
# tap and lower limits, in the third a cell must say itself that it is done.


def limits_of(version: int) -> Limits:
    low = version == 2
    return Limits(
        mailbox=2 if low else 3,
        cascade_depth=2 if low else 3,
        cascade_steps=4 if low else 8,
        instance_intents=2 if low else 3,
        open_intents=3 if low else 6,
        dedup_ns=2 * SECOND,
        dedup_rows=2 if low else 3,
        instance_keys=1 if low else 2,
        abandoned_intents=1 if low else 3,
        effects=2,
        events=3,
    )


def world_of(arms: int, scope: str, version: int) -> World:
    routes: dict[str, list[tuple[str, str | None]]] = {
        DO: [(CELL, "key"), (TWIN, "key"), (CELL, "also")],
        NOTE: [(CELL, "key")] if version == 2 else [(TAP, None), (CELL, "key")],
    }
    emitted = {"pay", "timer"} if "envelope" in ARM_SETS[arms] else {"timer"}
    return World(
        version=version,
        limits=limits_of(version),
        routes=routes,
        events={DO, NOTE, FREE},
        effects={CELL: emitted, TWIN: set(), TAP: set()},
        arms={CELL: set(ARM_SETS[arms])},
        explicit={CELL} if version == 3 else set(),
        scopes={"pay": scope, "timer": "cell"},
    )


@cache
def manifest(arms: int, scope: str, version: int) -> Loaded:
    world = world_of(arms, scope, version)
    text: dict[str, Any] = {"text": {}}
    variant = {tag: {"ref": name} for tag, name in (ARMS[arm] for arm in ARM_SETS[arms])}
    variant |= {"Do": {"ref": DO}, "Note": {"ref": NOTE}}
    error = {"code": text, "message": text, "retryable": {"option": {"bool": {}}}}
    is_explicit = {"lifecycle": "explicit"} if CELL in world.explicit else {}
    nodes = [
        schema(DO, {"record": {"key": text, "also": text, "script": {"bytes": {}}}}),
        schema(NOTE, {"record": {"key": text, "n": {"nat": {}}}}),
        schema(FREE, {"record": {"n": {"nat": {}}}}),
        schema("m/Key@1", text),
        schema("m/Log@1", {"list": text}),
        schema("m/Event@1", {"variant": variant}),
        workflow(
            CELL, state="m/Log@1", event="m/Event@1", key_schema="m/Key@1", annotations="m/Key@1",
            context="sys/WorkflowContext@1", effects=[EFFECTS[e] for e in world.effects[CELL]],
            **is_explicit,
        ),
        workflow(TWIN, state="m/Log@1", event=DO, key_schema="m/Key@1"),
    ]  # fmt: skip
    if "pay" in world.effects[CELL]:
        nodes += [
            schema("m/Pay@1", {"record": {"n": {"nat": {}}}}),
            schema("m/Paid@1", {"record": error}),
            effect(EFFECTS["pay"], "m/Pay@1", "m/Paid@1", idempotency_scope=scope),
        ]
    if version != 2:
        nodes.append(workflow(TAP, state="m/Log@1", event=NOTE))
    routes = [
        route(event, target, key) for event in (DO, NOTE) for target, key in world.routes[event]
    ]
    limits = {name: getattr(world.limits, name) for name in Limits.__dataclass_fields__}
    step = {name: limits.pop(name) for name in ("effects", "events")}
    return air(
        nodes,
        routes,
        version=version,
        schemas=[{"name": node["name"]} for node in nodes if node["$kind"] == "defschema"],
        limits={"world": limits, "step": step},
    )


# What the modules do, once for the model and, between envelopes, once for the kernel


def behave(
    id: Id, state: list[str] | None, event: tuple[str, Any], times: tuple[int, int, int]
) -> Output:
    what, value = event
    log = [*(state or []), f"{what} {value.get('n', '') if isinstance(value, dict) else value}"]
    if id[0] != CELL or what != DO:
        return Output(state=log)
    script: Any = decode_record(value["script"])
    end = script["end"]
    if end in ("trap", "guest", "output_malformed"):
        return Output(fault=end)
    emits = [emission(value, *each) for each in script["emits"]]
    asks = [asking(*each) for each in script["asks"]]
    return Output(
        state=None if end == "delete" else log[-3:],
        emits=emits,
        asks=asks,
        status=script["status"],
        ann=" ".join(map(str, times)) if script["ann"] else None,
    )


def emission(
    cause: dict[str, Any], what: str, key: str, claim: str | None, script: bytes | None
) -> Emit:
    """Without a script, an event of kind ``Do`` is the same as its cause: a loop."""
    if what == DO:
        value = {**cause, "key": key, "script": script} if script else cause
        return Emit(DO, value, claim)
    if what == "misfit":
        return Emit(NOTE, None, claim)
    return Emit(what, {"n": 1} if what == FREE else {"key": key, "n": 1}, claim)


def asking(name: str, n: int | None, key: str | bytes | None, issuer: str | None) -> Ask:
    params = START_NS + n * SECOND if name == "timer" and n is not None else n
    return Ask(name, params, key, issuer)


def told(arm: str, ask: Ask, status: str, schema: str | None) -> tuple[str, str]:
    """A continuation in the model's words: what the module logs of it."""
    if arm == "fired":
        return arm, f"{ask.params} {status}"
    code = ""
    if arm == "rejected":
        code = "receipt_payload_invalid" if schema is None else "receipt_status_has_no_arm"
    return arm, f"{ask.effect} {ask.issuer} {status} {code or schema}"


def model_behaviour(
    id: Id, state: list[str] | None, event: tuple[str, Any], times: tuple[int, int, int]
) -> Output:
    return behave(id, state, told(event[0], *event[1]) if event[0] in ARMS else event, times)


def module(name: str, envelope: Envelope) -> Any:
    """``behave`` as a module: envelope in, envelope out."""
    value: Any = decode_record(envelope["event"]["value"])
    what, times = {TWIN: DO, TAP: NOTE}.get(name, ""), (0, 0, 0)
    if name == CELL:
        context: Any = decode_record(envelope["ctx"])
        times = (context["now_ns"], context["logical_now_ns"], context["journal_height"])
        assert context["key"] == envelope["event"]["key"]
        tag, value = value["$tag"], value["$value"]
        what, value = {"Do": (DO, value), "Note": (NOTE, value)}.get(tag) or heard(tag, value)
    key = envelope["event"].get("key")
    id = (name, None if key is None else str(decode_record(key)))
    out = behave(id, state_of(envelope), (what, value), times)
    if out.fault == "trap":
        raise Trap
    if out.fault == "output_malformed":
        return b"\xff"
    if out.fault == "guest":
        return {"fault": {"kind": "k", "message": "m"}}
    emits = [
        {
            "schema": each.schema,
            "value": encode(5 if each.value is None else each.value),  # type: ignore[arg-type]  # a record
            **({} if each.claim is None else {"key": encode(each.claim)}),
        }
        for each in out.emits
    ]
    asks = [
        {
            "effect": EFFECTS[each.effect],
            "params": encode(params_of(each)),
            "idempotency_key": each.key,
            "issuer_ref": each.issuer,
        }
        for each in out.asks
    ]
    return {
        "state": None if out.state is None else encode([*out.state]),
        "domain_events": emits,
        "effects": asks,
        "status": out.status,
        "ann": None if out.ann is None else encode(out.ann),
    }


def params_of(ask: Ask) -> Any:
    if ask.params is None:
        return "misfit"
    return (
        {"deliver_at_ns": ask.params, "key": None} if ask.effect == "timer" else {"n": ask.params}
    )


def heard(tag: str, value: Any) -> tuple[str, str]:
    """A continuation as the kernel delivers it, in the model's words."""
    effects = {name: short for short, name in EFFECTS.items()}
    status = value["status"]
    if tag == "Fired":
        return "fired", f"{value['requested']['deliver_at_ns']} {status}"
    more = SCHEMAS[value["payload_schema"]] if tag == "Receipt" else value["error_code"]
    arm = {"Receipt": "envelope", "Rejected": "rejected"}[tag]
    return arm, f"{effects[value['effect']]} {value['issuer_ref']} {status} {more}"


# Commands. A pool of them is made by chance from a fixed seed, weighted so that most of a play goes
# well and every rule is broken now and then; a play is drawn from the pool.

Command = tuple[Any, ...]


def some_script(chance: random.Random, depth: int = 3) -> bytes:
    script: Any = {
        "emits": [],
        "asks": [],
        "status": chance.choices([None, "running", "completed", "failed"], [8, 1, 1, 1])[0],
        "end": chance.choices(
            [None, "delete", "trap", "guest", "output_malformed"], [26, 4, 1, 1, 1]
        )[0],
        "ann": chance.random() < 0.2,
    }
    if chance.random() < 0.4:
        script["emits"] = [some_emission(chance, depth) for _ in range(chance.choice([1, 1, 2, 3]))]
    if chance.random() < 0.5 and (script["end"] != "delete" or chance.random() < 0.4):
        script["asks"] = [some_request(chance) for _ in range(chance.choice([1, 1, 1, 2]))]
    if chance.random() < 0.02:
        script["emits" if chance.random() < 0.5 else "asks"] *= 4
    return encode(script)


def some_emission(chance: random.Random, depth: int) -> list[Any]:
    what = chance.choices([DO, NOTE, FREE, NOPE, "misfit"], [10, 6, 2, 0.2, 0.2])[0]
    key = chance.choice("abcd")
    claim = chance.choices([None, key, "c"], [6, 2, 0.3])[0]
    inner = some_script(chance, depth - 1) if depth and chance.random() < 0.8 else None
    return [what, key, claim, inner]


def some_request(chance: random.Random) -> list[Any]:
    return [
        chance.choices(["pay", "timer", "nope"], [10, 10, 0.4])[0],
        chance.choices([0, 1, 2, None], [10, 5, 5, 1])[0],
        chance.choices([None, "k", "l", b"k"], [5, 3, 1, 1])[0],
        chance.choice([None, "r", "s"]),
    ]


def some_command(chance: random.Random) -> Command:
    jump = chance.choices([0, 1, SECOND, -SECOND, -5 * SECOND], [20, 5, 3, 1, 1])[0]
    match chance.choices(
        ["send", "step", "settle", "apply", "seal", "restart"], [7, 9, 8, 1, 1, 1]
    )[0]:
        case "send":
            what = chance.choices(
                [DO, NOTE, FREE, NOPE, "long", "misfit"], [20, 3, 1, 0.5, 0.5, 0.5]
            )[0]
            submission = chance.choices([None, *"xyzw", "", "é" * 129], [12, 1, 1, 1, 1, 0.2, 0.2])[
                0
            ]
            key, also = chance.choice("abcd"), chance.choice("abcd")
            return ("send", what, (key, also), some_script(chance), submission, jump)
        case "settle":
            lie = chance.choice(sorted(LIES)) if chance.random() < 0.15 else None
            return (
                "settle",
                (chance.choice(["open", "open", "open", "open", "any"]), chance.randrange(8)),
                chance.choices(["ok", "error", "timeout", "canceled"], [6, 2, 1, 1])[0],
                chance.choices(["receipt", "error", "both", "none"], [6, 3, 2, 1])[0],
                lie,
                jump,
            )
        case "apply":
            return ("apply", chance.randrange(1, 4), chance.choice([0, 0, 0, 1, -1]), jump)
        case "step":
            return ("step", chance.choice([1, 2, 6, 20]))
        case word:
            return (word,)


LIES: dict[str, Any] = {
    "intent": content_hash(b"another"),
    "effect": "m/nope@1",
    "status": "fine",
    "attempt": 0,
    "finished_ns": 0,
    "executor": "mallory",
    "key_id": bytes(SigningKey(bytes([9]) * 32).verify_key),
    "signature": bytes(64),
    "payload": encode("another"),
}
POOL = [some_command(random.Random(seed)) for seed in range(1500)]
plays = st.lists(st.sampled_from(POOL), min_size=30, max_size=90)


class Play:
    """One world, and the model beside it."""

    def __init__(self, arms: int, scope: str) -> None:
        self.arms, self.scope = arms, scope
        loaded = manifest(arms, scope, 1)
        self.world = MemoryWorld(loaded, self.modules(1))
        self.model = Model(world_of(arms, scope, 1), model_behaviour, self.world.now_ns)
        self.model.records.append(("manifest", 2))
        self.known: dict[Name, OpenIntent] = {}
        self.checked = 0

    @staticmethod
    def modules(version: int) -> dict[str, Any]:
        names = [CELL, TWIN] if version == 2 else [CELL, TWIN, TAP]
        return {name: lambda envelope, name=name: module(name, envelope) for name in names}

    def do(self, command: Command) -> None:
        match command:
            case ("send", *rest):
                self.send(*rest)
            case ("step", count):
                for _ in range(count):
                    self.step()
            case ("settle", *rest):
                self.settle(*rest)
            case ("apply", *rest):
                self.apply(*rest)
            case (what,):
                self.seal()
                if what == "restart":
                    self.restart()
        assert seen(self.world, self.known) == expected(self.model)

    def send(self, what: str, keys: tuple[str, str], script: bytes, *more: Any) -> None:
        (key, also), (submission, jump) = keys, more
        self.world.now_ns += jump
        stamp = self.world.stamp()
        name = DO if what in ("long", "misfit") else what
        value: Any = {"key": key, "also": also, "script": script}
        if what == "long":
            value["key"] = "k" * 1022
        elif what == "misfit":
            value = None
        elif what != DO:
            value = {"n": 7} if what == FREE else {"key": key, "n": 7}
        given = EventInput(
            schema=name,
            value=encode("misfit" if value is None else value),
            submission_id=submission,
        )
        answer = self.world.kernel.admit(given, stamp)
        assert in_words(answer) == self.model.event(name, value, submission, stamp.ns)

    def step(self) -> None:
        record = self.world.kernel.step()
        found = None if record is None else summary(self.world, record, self.known)
        assert found == self.model.step()
        for intent in self.world.open():
            self.known[intent.seq, intent.index] = intent

    def settle(self, which: tuple[str, int], status: str, fits: str, *more: Any) -> None:
        (of, index), (lie, jump) = which, more
        self.world.now_ns += jump
        names = list(self.model.open if of == "open" else self.known)
        if not names:
            return
        name = names[index % len(names)]
        intent = self.known[name]
        payload: Any = {"code": "c", "message": "m", "retryable": True}
        if intent.effect.name == EFFECTS["pay"]:
            fits = {"error": "both"}.get(fits, fits)
            payload = {"code": "c", "message": "m"} if fits == "receipt" else payload
        else:
            fits = {"both": "error"}.get(fits, fits)
            payload = {"delivered_at_ns": 1, "key": None} if fits == "receipt" else payload
        true = self.world.receipt(intent, "misfit" if fits == "none" else payload, status=status)
        given = replace(true, **({} if lie is None else {lie: LIES[lie]}))
        stamp = self.world.stamp()
        answer = self.world.kernel.admit(given, stamp)
        assert in_words(answer) == self.model.receipt(name, status, fits, lie, stamp.ns)

    def apply(self, version: int, off: int, jump: int) -> None:
        self.world.now_ns += jump
        loaded = manifest(self.arms, self.scope, version)
        runner = self.world.runner
        runner.modules = {**runner.modules, **self.world.by_hash(loaded, self.modules(version))}
        serial, document = self.world.state.serial + off, loaded.effective.document
        message = (
            ManifestInput.message(self.world.state.world, serial, content_hash(document))
            if serial >= 0
            else b""
        )
        signature = OPERATOR_KEY.sign(message).signature
        given = ManifestInput(
            document=document, principal=OPERATOR.name, serial=serial, signature=signature
        )
        stamp = self.world.stamp()
        answer = self.world.kernel.admit(given, stamp)
        world = world_of(self.arms, self.scope, version)
        assert in_words(answer) == self.model.apply(world, serial, stamp.ns)

    def seal(self) -> None:
        found = [summary(self.world, record, self.known) for record in self.world.seal()]
        assert found == self.model.records[self.checked :]
        self.checked += len(found)

    def restart(self) -> None:
        state = folded(self.world)
        same(self.world.state, state)
        self.world.kernel = Kernel(state, runner=self.world.runner, read=self.world.read)

    def finish(self) -> bytes:
        """Let it come to rest, compare everything once more, and return the journal."""
        self.do(("step", 30))
        self.do(("restart",))
        by_key: dict[str, Any] = {}
        for name, intent in self.known.items():
            sameness = self.model.intents[name].sameness
            assert by_key.setdefault(intent.idempotency_key, sameness) == sameness
        assert len(by_key) == len({repr(each) for each in by_key.values()})
        return b"".join(frame.to_bytes() for frame in self.world.frames)


# The world in the model's words


def id_of(cell: CellId) -> Id:
    workflow, key = cell
    return workflow, str(decode_record(key)) if key else None


def text_of(world: MemoryWorld, slot: Slot | None) -> Any:
    return None if slot is None else decode_record(slot_bytes(slot, world.kernel.read))


def name_of(known: dict[Name, OpenIntent], intent: bytes) -> Name:
    return next(name for name, each in known.items() if each.intent == intent)


def in_words(answer: Answer) -> Summary:
    match answer:
        case Admitted(seq=seq, to=to):
            return ("admitted", seq, [id_of(each) for each in to])
        case Duplicate(seq=seq):
            return ("duplicate", seq)
        case Refusal(rule=rule, blockers=blockers):
            found = [(each.kind, id_of(each.cell)) for each in blockers]
            return ("refused", rule.value, found) if found else ("refused", rule.value)


def summary(world: MemoryWorld, record: Record, known: dict[Name, OpenIntent]) -> Summary:
    def ids(cells: tuple[CellId, ...]) -> list[Id]:
        return [id_of(each) for each in cells]

    match record:
        case Event():
            return ("event", record.seq, record.schema, ids(record.to), ids(record.overloaded))
        case Receipt():
            name = name_of(known, record.intent)
            schema = None if record.payload_schema is None else SCHEMAS[record.payload_schema]
            gone = [name_of(known, each) for each in record.abandoned]
            return ("receipt", record.seq, name, record.outcome, schema, gone)
        case Manifest():
            return ("manifest", record.seq)
        case Faulted() | Step():
            head = (record.seq, id_of(record.cell), record.entry, record.root, record.depth)
            if isinstance(record, Faulted):
                return ("fault", *head, record.fault.kind.value)
            emitted = [(e.schema, ids(e.to), ids(e.overloaded)) for e in record.events]
            short = {name: word for word, name in EFFECTS.items()}
            asks = [
                (short[e.effect], number_of(text_of(world, e.params)), e.key, e.issuer_ref)
                for e in record.intents
            ]
            gone = [name_of(known, each) for each in record.abandoned]
            state, ann = text_of(world, record.state), text_of(world, record.ann)
            return ("step", *head, state, record.status, emitted, asks, gone, ann)
        case _:
            raise AssertionError(record)


def number_of(params: Any) -> Any:
    return params["n"] if "n" in params else params["deliver_at_ns"]


def seen(world: MemoryWorld, known: dict[Name, OpenIntent]) -> Iterator[Any] | list[Any]:
    state = world.state
    names = {intent.intent: name for name, intent in known.items()}
    cells = [
        (
            id_of(cell.id), text_of(world, cell.state), cell.status, cell.declared,
            cell.fault and cell.fault.kind.value, cell.fault_seq, cell.last_seq,
            cell.mail_uncounted, [names[each] for each in cell.inflight], len(cell.keys),
            [(m.entry, m.root.seq, m.root.stamp.ns, m.root.steps, m.depth) for m in cell.mailbox],
        )
        for cell in state.cells.values()
    ]  # fmt: skip
    return [
        state.clock_ns, state.next_seq, state.serial, [id_of(each) for each in state.ring], cells,
        [names[each] for each in state.intents], [names[each] for each in state.abandoned],
        [(id, each.seq, each.at_ns) for id, each in state.submissions.items()],
        len(state.world_keys),
    ]  # fmt: skip


def expected(model: Model) -> list[Any]:
    cells = [
        (
            cell.id, cell.state, cell.status, cell.declared, cell.fault, cell.fault_seq,
            cell.last_seq, cell.counted, cell.inflight, len(cell.keys),
            [(m.entry, m.cause.seq, m.cause.ns, m.cause.steps, m.depth) for m in cell.mail],
        )
        for cell in model.cells.values()
    ]  # fmt: skip
    return [
        model.clock, model.seq, model.serial, model.ring, cells,
        list(model.open), list(model.abandoned),
        [(id, seq, at) for id, (seq, _, at) in model.submissions.items()],
        len(model.world_keys),
    ]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def read_manifests_once() -> Iterator[None]:
    """Reading a manifest takes longer than a whole play."""
    cached = SimpleNamespace(from_document=lru_cache(Effective.from_document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_module, "Effective", cached)
        patch.setattr(admit_module, "Effective", cached)
        yield


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.integers(0, 3), st.sampled_from(["cell", "world"]), plays)
def test_the_core_does_what_the_model_says(arms: int, scope: str, play: list[Command]) -> None:
    journals = []
    for _ in range(2):
        world = Play(arms, scope)
        for command in play:
            world.do(command)
        journals.append(world.finish())
    assert journals[0] == journals[1]


def test_the_words_are_those_of_the_core() -> None:
    kinds = {kind.value for kind in FaultKind}
    assert {"trap", "guest", "output_malformed"} <= kinds
