"""A shadow of version 2 says of version 1's journal what a world of version 2 does that is given
the same events, times and answers (spec/shadow.md, SH-60)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.values.cbor import Value, decode_record
from tests.memory_world import MemoryWorld
from tests.prove.whatif.naive_world import (
    Rule,
    TrueWorld,
    recorded_world,
    told_by,
    versioned,
)
from tests.prove.whatif.shadows import shadow_of_world
from tests.run_seed import in_turns, seeds
from tests.tools import long_form

SEEDS = 2_000 if long_form() else 120
SCRIPTED: Value = {"id": "scripted"}
SCRIPT = json.dumps({"effect": "shop/card.charge@1", "status": "ok", "payload": SCRIPTED}).encode()


def cells(state: State, read: Any) -> dict[Any, Any]:
    found = {}
    for cell in state.cells.values():
        held = cell.state
        assert held is None or isinstance(held, bytes)
        value = None if held is None else decode_record(held)
        found[cell.id] = (value, cell.status, len(cell.inflight))
    return found


def true_world(world: MemoryWorld, rule: Rule, *, is_scripted: bool) -> TrueWorld:
    found = TrueWorld(versioned(2), rule.modules())

    def script(_intent: OpenIntent) -> Value:
        return SCRIPTED

    found.given(told_by(world), script if is_scripted else None)
    return found


@pytest.mark.long
@pytest.mark.parametrize("part", in_turns(2, range(4)))
def test_a_shadow_tells_what_version_2_would_have_done(part: int) -> None:
    differing = 0
    for seed in seeds(SEEDS)[part::4]:
        chance = random.Random(f"rules {seed}")
        before, after = Rule.drawn(chance), Rule.drawn(chance)
        is_scripted = chance.random() < 0.5
        world = recorded_world(seed, before)
        report, shadow = shadow_of_world(
            world, versioned(2), after.modules(), answers=SCRIPT if is_scripted else None
        )
        true = true_world(world, after, is_scripted=is_scripted)

        told = f"seed {seed}: {before} became {after}"
        assert cells(shadow.state, None) == cells(true.state, None), told
        asked: dict[str, int] = {}
        for step in true.steps():
            for intent in getattr(step, "intents", ()):
                asked[intent.effect] = asked.get(intent.effect, 0) + 1
        effects = report["effects"]["shadow"]
        assert {name: each["asked"] for name, each in effects.items()} == asked, told
        assert report["pending"]["shadow"] == len(true.open()), told
        if before == after:
            assert report["same"], told
        differing += not report["same"]
    assert differing, "no seed had anything to tell"
