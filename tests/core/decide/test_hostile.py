"""The core answers every input with a record or a refusal, and never with an exception.

Each test throws a few thousand inputs, made from a seed, at worlds that are half way through their
work. A refusal must leave the state as it was; an admitted input must fold to the same state again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal
from aos.core.journal.faults import MESSAGE_BYTES_MAX
from aos.core.journal.inputs import EventInput, Input, ManifestInput, ReceiptInput
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Faulted, Receipt, Step
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.manifest.load import Loaded
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash
from tests.core.decide.test_effects import (
    BUYER,
    ENVELOPE,
    PAID,
    PAY,
    REJECTED,
    TIMER,
    key_text,
    nodes,
)
from tests.core.decide.test_isolation import folded, same, shown, waiting
from tests.memory_world import (
    OPERATOR,
    OPERATOR_KEY,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    air,
    event_of,
    route,
    schema,
    workflow,
)
from tests.tools import long_form

AUDIT = "t/audit@1"

# Values likely to break code: ends of ranges, lone surrogates, characters that some releases print
# and others escape, names that mean something.
INTEGERS = [0, 1, -1, 23, 24, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**200, -(2**64), -(2**99)]
TEXTS = [
    "", "ok", "error", "node", "test", "running", "\x00", "é", "\U000e0001", "x" * 5000, "$tag",
    "Buy", "key", "state", "fault", PAY, TIMER, BUYER, "t/Buy@1", "t/BuyerEvent@1", "t/Nope@1",
    "sys/EffectReceiptEnvelope@1", "sys/EffectError@1", "operator",
]  # fmt: skip
SURROGATES = ["\ud800", "a\udfff", "\udc80" * 300]
SIZES = [0, 1, 31, 32, 33, 63, 64, 65, 1024, 1025]
CBOR = [0, 1, 2**63, 2**64 - 1, -1, -(2**64), "", "a", "Buy", b"", b"\xf6", True, False, None]


def some_value(chance: random.Random, depth: int = 3) -> Any:
    """Anything that CBOR has; integer keys of both signs too."""
    match chance.randrange(8):
        case 0 if depth:
            return [some_value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 1 if depth:
            keys = [chance.choice([*TEXTS, 0, -1, 5, -(2**64)]) for _ in range(chance.randrange(4))]
            return {key: some_value(chance, depth - 1) for key in keys}
        case 2:
            return chance.randbytes(chance.choice(SIZES))
        case 3:
            return chance.choice(TEXTS)
        case _:
            return chance.choice(CBOR)


def some_bytes(chance: random.Random, good: bytes) -> bytes:
    """Bytes of no meaning, or good ones with a few of them altered, cut or added."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.choice(SIZES))
    data = bytearray(good)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.choice(
                    [b"\xff", b"\xd9\xd9\xf7", b"\xbf", b"\x1b" + b"\xff" * 8]
                )
            case _ if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
    return bytes(data)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def altered(value: Any, path: tuple[Any, ...], new: Callable[[Any], Any]) -> Any:
    if not path:
        return new(value)
    copy = value.copy()
    copy[path[0]] = altered(copy[path[0]], path[1:], new)
    return copy


def other_value(chance: random.Random, good: Any) -> Any:
    """A good value with a few of its places replaced, dropped or doubled."""
    for _ in range(chance.randrange(1, 4)):
        path = chance.choice(list(places(good)))

        def change(value: Any) -> Any:
            match chance.randrange(5):
                case 0 if isinstance(value, dict) and value:
                    return {key: value[key] for key in list(value)[1:]}
                case 1 if isinstance(value, dict):
                    return {**value, chance.choice([*TEXTS, 7]): some_value(chance)}
                case 2 if isinstance(value, list):
                    return value * chance.choice([2, 70, 300])
                case 3 if isinstance(value, bytes):
                    return some_bytes(chance, value)
                case _:
                    return some_value(chance)

        good = altered(good, path, change)
    return good


NOTES: dict[str, Any] = {"map": {"key": {"int": {}}, "value": {"text": {}}}}
LIMITS = {"mailbox": 3, "cascade_depth": 4, "cascade_steps": 40, "open_intents": 90}


@cache
def manifest(version: int = 1) -> Loaded:
    keyed, *rest = reversed(nodes({**ENVELOPE, **REJECTED}))
    return air(
        [
            *rest,
            {**keyed, "annotations": "t/Key@1"},
            workflow(AUDIT, state="t/Log@1", event="t/Note@1"),
            schema("t/Note@1", {"record": {"map": NOTES}}),
        ],
        [
            route("t/Buy@1", BUYER, "key"),
            route("t/Note@1", AUDIT),
            route("t/BuyerEvent@1", BUYER, "$value.key"),
        ],
        version=version,
        limits={"world": LIMITS},
        executors=[
            {"name": "node", "public_key": key_text(WORLD_KEY), "effects": [PAY, TIMER]},
            {"name": "test", "public_key": key_text(OPERATOR_KEY), "effects": [PAY]},
        ],
    )  # fmt: skip


GOOD_OUTPUT: Envelope = {
    "state": encode(["line"]),
    "domain_events": [
        {"schema": "t/Buy@1", "value": encode({"key": "z", "n": 1}), "key": encode("z")},
        {"schema": "t/Note@1", "value": encode({"map": {-1: "a", 24: "b", 0: "c"}})},
    ],
    "effects": [
        {"effect": PAY, "params": encode({"n": 1}), "idempotency_key": "k", "issuer_ref": "r"},
        {"kind": TIMER, "params_cbor": encode({"deliver_at_ns": 5, "key": None})},
    ],
    "ann": encode("note"),
    "status": "running",
}
GUEST_FAULT: Envelope = {"fault": {"kind": "kind", "message": "message", "detail": b"\x00"}}


def world_of(outputs: list[bytes]) -> MemoryWorld:
    """Orders with ``n`` 100 and more get the output of that number, others buy; the audit logs."""

    def buyer(envelope: Envelope) -> Any:
        n = event_of(envelope)["$value"].get("n")
        number = -1 if n is None else n - 100
        return outputs[number] if 0 <= number < len(outputs) else GOOD_OUTPUT

    def audit(envelope: Envelope) -> Any:
        return {"state": envelope["state"] or encode([])}

    return MemoryWorld(manifest(), {BUYER: buyer, AUDIT: audit})


def picture(state: State) -> Any:
    """Everything that a refusal must leave alone, and nothing that is shared with the state."""

    def cell(each: Cell) -> list[Any]:
        fields = [getattr(each, name) for name in Cell.__dataclass_fields__ if name != "mailbox"]
        fields = [list(item.items()) if isinstance(item, dict) else item for item in fields]
        return [fields, [waiting(mail) for mail in each.mailbox]]

    return [
        state.next_seq, state.clock_ns, state.serial, state.manifest_seq, state.tip,
        list(state.ring), [cell(each) for each in state.cells.values()],
        [shown(each) for each in state.intents.values()],
        [shown(each) for each in state.abandoned.values()],
        list(state.submissions.items()), list(state.world_keys.items()),
    ]  # fmt: skip


def throw(world: MemoryWorld, given: Input) -> Answer:
    """Admit; a refusal changes nothing and has a few words for people that can be written."""
    before, pending = picture(world.state), world.kernel.pending_records
    answer = world.kernel.admit(given, world.stamp())
    if isinstance(answer, Admitted):
        assert world.kernel.pending_records == pending + 1
        return answer
    assert picture(world.state) == before, given
    assert world.kernel.pending_records == pending
    if isinstance(answer, Refusal):
        assert len(answer.message.encode()) <= MESSAGE_BYTES_MAX, given
    else:
        assert isinstance(answer, Duplicate)
    return answer


def is_whole(world: MemoryWorld) -> None:
    """The journal reads back record by record, and folds to the state that it was written from."""
    world.seal()
    for frame in world.frames:
        for data in frame.records:
            assert to_bytes(from_bytes(data)) == data
    same(world.state, folded(world))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8 if long_form() else 4))
def test_any_answer_of_a_module_is_a_step_or_a_fault(seed: int) -> None:
    chance = random.Random(seed)
    outputs = []
    for _ in range(150):
        good = chance.choice([GOOD_OUTPUT, GOOD_OUTPUT, GOOD_OUTPUT, GUEST_FAULT])
        if chance.random() < 0.4:
            outputs.append(some_bytes(chance, encode(good)))
        else:
            outputs.append(encode(other_value(chance, good)))
    world = world_of(outputs)
    kinds = set()
    for number in range(len(outputs)):
        world.send("t/Buy@1", {"key": f"cell {number}", "n": 100 + number})
        if chance.random() < 0.3:
            for record in world.run():
                if isinstance(record, Faulted):
                    kinds.add(record.fault.kind.value)
                    assert len(record.fault.message.encode()) <= MESSAGE_BYTES_MAX
        for intent in world.open()[::2]:
            world.settle(intent, PAID)
    world.run()
    is_whole(world)
    assert sum(isinstance(record, Step) for record in world.steps()) > 10
    assert len(kinds) >= 5, kinds


def receipts(world: MemoryWorld, chance: random.Random) -> Iterator[ReceiptInput]:
    """True receipts of open and settled intents, with fields of all sorts in them, some of them
    signed so."""
    known = world.open()
    for _ in range(250):
        intent = chance.choice(known)
        payload: Any = chance.choice([PAID, {"ref": 5}, some_value(chance)])
        true = world.receipt(
            intent, payload, status=chance.choice(["ok", "ok", "error", "timeout"])
        )
        odd: dict[str, list[Any]] = {
            "intent": [chance.randbytes(chance.choice(SIZES)), content_hash(b"x")],
            "effect": TEXTS + SURROGATES,
            "attempt": [*INTEGERS, True, None],
            "status": TEXTS + SURROGATES,
            "payload": [some_bytes(chance, true.payload), bytes(2**20 + 1), b""],
            "started_ns": [*INTEGERS, True],
            "finished_ns": [*INTEGERS, False],
            "executor": TEXTS + SURROGATES,
            "key_id": [chance.randbytes(size) for size in SIZES] + [bytes(32)],
            "signature": [chance.randbytes(size) for size in SIZES] + [bytes(64)],
            "cost_cents": [*INTEGERS, True, False, None],
        }
        names = chance.sample(sorted(odd), chance.choice([0, 1, 1, 1, 2, 4]))
        given = replace(true, **{name: chance.choice(odd[name]) for name in names})
        if chance.random() < 0.5:
            given = signed(world, given)
        yield given


def signed(world: MemoryWorld, given: ReceiptInput) -> ReceiptInput:
    try:
        message = given.message(world.state.world)
    except (TypeError, OverflowError):
        return given  # cannot be written, so no key can sign it
    return replace(given, signature=WORLD_KEY.sign(message).signature)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6 if long_form() else 3))
def test_any_receipt_is_admitted_or_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = world_of([])
    for n in range(40):
        world.send("t/Buy@1", {"key": f"k{n % 9}", "n": n})
        world.run()
    answers = [throw(world, given) for given in receipts(world, chance)]
    rules = {answer.rule for answer in answers if isinstance(answer, Refusal)}
    assert any(isinstance(answer, Admitted) for answer in answers)
    assert len(rules) >= 7, rules
    world.run()
    is_whole(world)
    outcomes = {each.outcome for each in world.records() if isinstance(each, Receipt)}
    assert {"delivered", "rejected"} <= outcomes


@pytest.mark.parametrize("seed", range(4))
def test_any_event_is_admitted_or_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = world_of([])
    good: list[tuple[str, Value]] = [
        ("t/Buy@1", {"key": "a", "n": 1}),
        ("t/BuyerEvent@1", {"$tag": "Buy", "$value": {"key": "a", "n": 1}}),
        ("t/BuyerEvent@1", {"$tag": "Receipt", "$value": {"key": "a"}}),
        ("t/Note@1", {"map": {-1: "a", 0: "b", 500: "c", -(2**63): "d"}}),
        ("t/Log@1", ["unrouted"]),
    ]
    answers = []
    for _ in range(300):
        name, value = chance.choice(good)
        data = encode(value if chance.random() < 0.5 else other_value(chance, value))
        given = EventInput(
            schema=name if chance.random() < 0.9 else chance.choice(TEXTS + SURROGATES),
            value=data if chance.random() < 0.7 else some_bytes(chance, data),
            submission_id=chance.choice([None, "one", "two", *TEXTS, *SURROGATES]),
        )
        answers.append(throw(world, given))
        if chance.random() < 0.1:
            world.step()
    assert {type(answer) for answer in answers} == {Admitted, Duplicate, Refusal}
    world.run()
    is_whole(world)


@pytest.mark.parametrize("seed", range(4))
def test_any_manifest_is_admitted_or_changes_nothing(seed: int) -> None:
    """Signed by the operator, too: his document may still be nonsense."""
    chance = random.Random(seed)
    world = world_of([])
    world.seal()
    good = decode_record(manifest(2).effective.document)
    answers = []
    for _ in range(100):
        serial: Any = world.state.serial
        try:
            document = some_bytes(chance, encode(other_value(chance, good)))
        except OverflowError:
            continue
        message = ManifestInput.message(world.state.world, serial, content_hash(document))
        given = ManifestInput(
            document=document,
            principal=OPERATOR.name,
            serial=serial,
            signature=OPERATOR_KEY.sign(message).signature,
        )
        if chance.random() < 0.3:
            wrong: dict[str, list[Any]] = {
                "principal": TEXTS + SURROGATES,
                "serial": [*INTEGERS, True],
                "signature": [chance.randbytes(size) for size in SIZES],
                "document": [b"", b"\xa0", b"\xff"],
            }
            name = chance.choice(sorted(wrong))
            given = replace(given, **{name: chance.choice(wrong[name])})
        answers.append(throw(world, given))
    assert len({answer.rule for answer in answers if isinstance(answer, Refusal)}) >= 4
    is_whole(world)
