"""Worlds to prove things about, and the two verifiers, asked together."""

from __future__ import annotations

import copy
import importlib.util
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.records import Ref, Step
from aos.core.state.cell import OpenIntent
from aos.errors import Damage
from aos.prove.proofs.checking import check
from aos.prove.proofs.proof_file import read_proof
from aos.prove.proofs.trust import TrustPolicy, judge
from aos.values.digests import Hash, hash_text
from tests.memory_world import WORLD_KEY
from tests.prove.journals import CHARGE, TIMER, Shop, shop_with

ROOT = Path(__file__).parents[3]
BANK_KEY = SigningKey(bytes([7]) * 32)
BANK = "test"
"""The executor that the shop's effect names."""

CANARY = "canary"


@cache
def independent() -> ModuleType:
    """``spec/verify_proof.py``, which imports nothing of AOS."""
    spec = importlib.util.spec_from_file_location("verify_proof", ROOT / "spec/verify_proof.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decided(data: bytes, policy: TrustPolicy) -> int:
    """The exit code of both verifiers, which must be the same."""
    try:
        ours = 1 if judge(check(read_proof(data)), policy).problems else 0
    except Damage as problem:
        ours = problem.exit_code
    theirs, why = independent().decide(
        data,
        None if policy.world is None else hash_text(policy.world),
        None if policy.key is None else f"ed25519:{policy.key.hex()}",
        [(each.name, each.public) for each in policy.witnesses],
        policy.witnesses_min,
    )
    assert ours == theirs, f"ours says {ours}, the independent one {theirs}: {why}"
    return ours


def executors() -> list[dict[str, object]]:
    bank: dict[str, object] = {
        "name": BANK,
        "public_key": f"ed25519:{bytes(BANK_KEY.verify_key).hex()}",
        "effects": [CHARGE],
    }
    node: dict[str, object] = {
        "name": "node",
        "public_key": f"ed25519:{bytes(WORLD_KEY.verify_key).hex()}",
        "effects": [TIMER],
    }
    return [bank, node]


class BankedShop(Shop):
    """The shop with a manifest that lists its executors: the bank signs charges itself."""

    def __init__(self) -> None:
        super().__init__(shop_with(executors=executors()))

    def receipt(self, intent: OpenIntent, payload: Any = None, **more: Any) -> ReceiptInput:
        made = super().receipt(intent, payload, **more)
        if intent.effect.name != CHARGE:
            return made
        key = bytes(BANK_KEY.verify_key)
        unsigned = _with(made, executor=BANK, key_id=key)
        signature = BANK_KEY.sign(unsigned.message(self.state.world)).signature
        return _with(unsigned, signature=signature)


def _with(made: ReceiptInput, **fields: Any) -> ReceiptInput:
    return replace(made, **fields)


def lived_in(world: Shop) -> Shop:
    """References, a batch, stream frames, faults, a snapshot, an erased value and a fork."""
    world.place("ord-1", 5, "sub-1")
    world.place("ord-2", 7)
    world.place("ord-3", 20_000)
    world.place(f"{CANARY}-neighbour", 3)
    world.run()
    world.stream(world.intent_of("ord-1"), 0)
    world.run()
    if not isinstance(world, BankedShop):
        asked = [world.intent_of("ord-1"), world.intent_of("ord-3")]
        receipts = [world.receipt(each, {"id": "x"}) for each in asked]
        for each in world.batch(receipts):
            assert isinstance(world.kernel.admit(each, world.stamp()), Admitted)
    else:
        world.charged("ord-1")
        world.charged("ord-3")
    world.fail(world.intent_of("ord-2"), "declined")
    world.run()
    assert isinstance(world.snapshot(), Admitted)
    world.place("ord-4", 0)
    world.place("ord-5", 13)
    world.run()
    erased = long_params(world)
    assert isinstance(world.control("erase", value=erased), Admitted)
    del world.blobs[erased]
    world.run()
    return world


def long_params(world: Shop) -> Hash:
    """The params of the long order, which are outside of their record."""
    for record in world.records():
        if isinstance(record, Step):
            for each in record.intents:
                if isinstance(each.params, Ref):
                    return each.params.hash
    raise AssertionError("no params are long")


def forked(world: Shop) -> Shop:
    """The same, continued as another world."""
    world.fork()
    world.place("ord-9", 4)
    world.run()
    world.charged("ord-9")
    world.run()
    assert isinstance(world.snapshot(), Admitted)
    world.place("ord-10", 4)
    world.run()
    return world


JSON_PARTS: Sequence[Any] = (None, True, 0, -1, 2**64, 1.5, "", "00", [], {}, "YQ==")


def mutated(document: Any, some: random.Random, parts: Sequence[Any]) -> Any:
    """The document with some parts exchanged, removed, doubled, or replaced by one of ``parts``."""
    found = copy.deepcopy(document)
    for _ in range(some.randint(1, 3)):
        spots = list(all_spots(found))
        where, name = some.choice(spots)
        other, other_name = some.choice(spots)
        match some.randrange(5):
            case 0:
                where[name] = copy.deepcopy(other[other_name])
            case 1:
                del where[name]
            case 2:
                where[name] = copy.deepcopy(some.choice(parts))
            case 3 if isinstance(where[name], list):
                where[name] = where[name] * 2
            case 4 if isinstance(where, dict):
                where[some.choice(["more", "path", "header", "timestamp", "nodes"])] = where[name]
        if not isinstance(found, dict) or not found:
            break
    return found


def all_spots(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inside in list(items):
        yield value, name
        if isinstance(inside, dict | list):
            yield from all_spots(inside)
