"""Inputs with fields that no record can hold: both kernels give one answer (CR-16, CR-19)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, cast

import pytest

from aos.core.decide.answers import Decided, Refusal
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    AttemptInput,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StreamInput,
)
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Batch
from aos.core.kernel_protocol import KernelProtocol
from aos.errors import Damage
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.desk import ONCE, cell_id, pay, tell, wish
from tests.core.governed import (
    NO_CHANGE,
    act,
    action_input,
    governed,
    key_of,
    manifest_input,
    proposal_input,
    propose,
    report,
    version,
)
from tests.fastcore.owned_kernel import OPENERS
from tests.memory_world import OPERATOR, OPERATOR_KEY, WORLD_KEY, MemoryWorld
from tests.run_seed import run_seed
from tests.tools import long_form

EXAMPLES: Final = 20_000 if long_form() else 400

NUMBERS: Final = (
    0, 1, 2, 3, -1, -5, -(2**64), -(2**64) - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**80 - 1, 2**80,
    -(2**80), 2**81, 2**9000, -(2**9000),
)  # fmt: skip
TEXTS: Final = (
    "", "node", "ok", "error", "ann", "operator", "propose", "approve", "retry", "settle", "\ud800",
    "t/Tell@\udfff", "t/Tell@", "t/Tell@12", "\ud800\udc00", "\U0010ffff\udc00" * 40, "x" * 70,
    'ä\n"\\\b', "y" * 2000, "z\ud9ff" * 700,
)  # fmt: skip
HASHES: Final = tuple(Hash(bytes([7]) * size) for size in (0, 1, 31, 32, 33, 64, 70_000))


@dataclass(frozen=True)
class Example:
    """An input that the world would admit or refuse for its state alone, and how to sign it."""

    input: Any
    sign: Callable[[Any], Any] = lambda unsigned: unsigned


@dataclass(frozen=True)
class Worlds:
    """One governed world with open work, by both kernels."""

    world: MemoryWorld
    fast: KernelProtocol
    examples: tuple[Example, ...]


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    world = governed("ann", "bob", quorum=2)
    tell(world, "a", pay("p"), pay("q"), wish(ONCE, {"n": 1}, "o"))
    tell(world, "b", note="fail")
    _, second, once = world.open()
    world.attempt(once, 1)
    world.stream(second, 7)
    withdrawn = propose(world, version(3, "ann", "bob", quorum=2))
    act(world, "withdraw", withdrawn, by=OPERATOR.name)
    open_one = propose(world, version(2, "ann", "bob", quorum=2))
    seen = report(world, open_one)
    world.snapshot()
    world.seal()
    fast = OPENERS["fast"](world=world.state.world, read=world.read, find=world.places.get)
    for frame in world.frames:
        fast.follow(frame)
    return Worlds(world, fast, tuple(examples(world, open_one, seen)))


def examples(world: MemoryWorld, proposal: int, seen: Hash) -> list[Example]:
    first, second, once = world.open()
    of = world.state.world
    event_value = encode({"key": "a", "asks": [], "note": ""})

    def receipt(input: ReceiptInput) -> ReceiptInput:
        return replace(input, signature=WORLD_KEY.sign(input.message(of)).signature)

    def stream(input: StreamInput) -> StreamInput:
        return replace(input, signature=WORLD_KEY.sign(input.signed_message(of)).signature)

    def control(input: ControlInput) -> ControlInput:
        return replace(input, signature=OPERATOR_KEY.sign(input.message(of)).signature)

    def manifest(input: ManifestInput) -> ManifestInput:
        message = ManifestInput.message(
            of, world.state.serial, content_hash(input.document), mode=input.mode,
            leaves=input.leaves, proposal=input.proposal,
        )  # fmt: skip
        return replace(input, signature=OPERATOR_KEY.sign(message).signature)

    def governance(input: GovernanceInput) -> GovernanceInput:
        open_one = world.state.proposals.open.get(cast("int", input.proposal))
        change = input.change or (NO_CHANGE if open_one is None else open_one.change)
        key = key_of(input.principal if input.principal in ("ann", "bob") else OPERATOR.name)
        return replace(input, signature=key.sign(input.message(of, change)).signature)

    def command(action: str, **more: Any) -> Example:
        unsigned = ControlInput(
            action=action, principal=OPERATOR.name, serial=world.state.controls, signature=b"",
            **more,
        )  # fmt: skip
        return Example(control(unsigned), control)

    paid = encode({"ref": "r"})
    kept = content_hash(b"no such value")
    batched = world.batch([world.receipt(first, {"ref": "r"}), world.receipt(second, {"ref": "s"})])
    new = version(2, "ann", "bob", quorum=2)
    mark = world.state.snapshot
    assert mark is not None
    return [
        Example(EventInput(schema="t/Tell@1", value=event_value, submission_id="one")),
        Example(world.receipt(first, {"ref": "r"}), receipt),
        Example(batched[0], receipt),
        Example(world.frame_of(second, 9), stream),
        Example(AttemptInput(intent=first.intent, attempt=2)),
        Example(AttemptInput(intent=once.intent, attempt=1, phase="parked", code="down")),
        Example(AttemptInput(intent=once.intent, attempt=1, phase="lost", problem="gone")),
        Example(SnapshotInput(at=mark.at + 1, frame=kept, document=kept, size=9)),
        command("retry", cell=cell_id("b"), restamp=True),
        command("skip", cell=cell_id("b")),
        command("cancel", intent=first.intent),
        command("erase", value=kept),
        command("settle", intent=first.intent, status="ok", payload=paid),
        command("end", cell=cell_id("a"), status="completed", why="over"),
        Example(manifest_input(world, new.effective, proposal=proposal), manifest),
        Example(proposal_input(world, new, note="again"), governance),
        Example(action_input(world, "approve", proposal, by="ann", seen=seen), governance),
        Example(action_input(world, "reject", proposal, by="bob", note="no"), governance),
        Example(action_input(world, "withdraw", proposal, by=OPERATOR.name), governance),
        Example(action_input(world, "report", proposal, by="ann", report=b"none"), governance),
    ]


HASH_FIELDS: Final = {"intent", "value", "payload_ref", "base", "seen", "frame"}


def altered_field(name: str, input: Any, chance: random.Random) -> object:
    """Another value of the type of a field."""
    value = getattr(input, name)
    if name == "batch":
        return Batch(
            index=chance.choice(NUMBERS), size=chance.choice(NUMBERS),
            path=tuple(chance.choices(HASHES, k=chance.randrange(3))),
        )  # fmt: skip
    if name in HASH_FIELDS and not isinstance(input, EventInput):
        return chance.choice(HASHES)
    if name == "document" and isinstance(input, SnapshotInput):
        return chance.choice(HASHES)
    if name == "cell":
        return (chance.choice(TEXTS), encode("a"))
    if name == "leaves":
        return tuple(chance.choices(TEXTS, k=chance.randrange(1, 3)))
    if name in ("proposal", "serial", "checked", "cost_cents") or type(value) is int:
        return chance.choice(NUMBERS)
    if name in ("submission_id", "problem", "code", "status", "why", "note") or type(value) is str:
        return chance.choice(TEXTS)
    return value


def altered(example: Example, chance: random.Random) -> Any:
    """The input with up to three other fields, signed if its message can be written."""
    input = example.input
    names = [field.name for field in fields(input)]
    for name in chance.choices(names, k=chance.choice((1, 1, 2, 3))):
        input = replace(input, **{name: altered_field(name, input, chance)})
    if chance.random() < 0.8:
        try:
            return example.sign(input)
        except (TypeError, OverflowError, ValueError):
            return input
    return input


UNWRITABLE: Final = "a field that cannot be written"


def answer_of(kernel: KernelProtocol, input: Input, stamp: Any) -> object:
    try:
        decision = kernel.decide(input, stamp)
    except (TypeError, OverflowError, ValueError):
        return UNWRITABLE
    except Damage as damage:
        return str(damage)
    if isinstance(decision, Decided):
        if isinstance(input, SnapshotInput) and not is_snapshot(input):
            return UNWRITABLE  # the reference would write a record that no reader accepts
        return to_bytes(decision.record), dict(decision.blobs)
    return decision


def is_snapshot(input: SnapshotInput) -> bool:
    sizes = {len(input.frame), len(input.document)}
    return sizes == {32} and 0 <= input.size < 2**64


def test_both_kernels_give_one_answer_to_any_input(worlds: Worlds) -> None:
    chance = random.Random(run_seed())
    stamp = worlds.world.stamp()
    refused: dict[str, set[str]] = {}
    for _ in range(EXAMPLES):
        input = altered(chance.choice(worlds.examples), chance)

        expected = answer_of(worlds.world.kernel, input, stamp)

        assert answer_of(worlds.fast, input, stamp) == expected, input
        if isinstance(expected, Refusal):
            refused.setdefault(type(input).__name__, set()).add(expected.rule.value)
    assert len(refused) == 8, refused
    assert sum(map(len, refused.values())) >= 25, refused


def test_the_examples_are_decided_as_they_are(worlds: Worlds) -> None:
    """Else the alterations would meet the first rule alone."""
    stamp, decided = worlds.world.stamp(), 0
    for example in worlds.examples:
        expected = answer_of(worlds.world.kernel, example.input, stamp)
        assert answer_of(worlds.fast, example.input, stamp) == expected
        decided += isinstance(expected, tuple)
    assert decided >= 12


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_described_as_the_reference_describes_it(worlds: Worlds, number: int) -> None:
    first, stamp = worlds.world.open()[0], worlds.world.stamp()
    input = replace(worlds.world.receipt(first, {"ref": "r"}), attempt=number)

    refused = worlds.fast.decide(input, stamp)

    assert refused == worlds.world.kernel.decide(input, stamp)


def test_a_path_with_a_hash_of_another_length_leads_to_no_root(worlds: Worlds) -> None:
    """J-40: no record can hold it, even if its signer made it."""
    first, second = worlds.world.open()[:2]
    one, _ = worlds.world.batch(
        [worlds.world.receipt(first, {"ref": "r"}), worlds.world.receipt(second, {"ref": "s"})]
    )
    assert one.batch is not None
    for size in (0, 31, 33):
        batch = replace(one.batch, path=(Hash(bytes(size)),))
        refused = answer_of(worlds.fast, replace(one, batch=batch), worlds.world.stamp())
        assert isinstance(refused, Refusal)
        assert refused.rule.value == "receipt_signature_is_wrong"
