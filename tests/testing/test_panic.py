"""A panic in a test of an author's (T-12)."""

from __future__ import annotations

import json

import pytest

from aos.testing import CellFailed, World
from tests.modules.guests import ROOT, wasm

DO = "puppet/Do@1"
INDEX = "index out of bounds: the len is 3 but the index is 5"


def puppets() -> World:
    nodes = json.loads((ROOT / "tests/modules/puppet.air.json").read_text("utf-8"))
    return World(nodes, modules={"puppet/module@1": wasm("puppet")})


def panic(key: str, way: str) -> dict[str, object]:
    return {"key": key, "do": {"$tag": "panic", "$value": way}}


def test_a_test_that_meets_a_panic_reads_where_and_why() -> None:
    with puppets() as world:
        world.send(DO, panic("a", "index"))
        with pytest.raises(CellFailed) as told:
            world.run()

        [fault] = told.value.faults
        place, _, words = fault.message.partition(": index")
        assert fault.kind == "trap"
        assert place.startswith("step: panicked: puppet/src/lib.rs:")
        assert f"index{words}" == INDEX
        assert fault.message in str(told.value)
        assert "(trap:" not in str(told.value), "nothing is to be guessed"


def test_after_a_panic_a_trap_without_a_message_is_still_explained() -> None:
    with puppets() as world:
        world.send(DO, panic("a", "literal"))
        world.send(DO, {"key": "b", "do": {"$tag": "trap"}})
        with pytest.raises(CellFailed, match="out of eggs") as told:
            world.run()

        assert str(told.value).count("(trap: a panic, an unwrap") == 1


def test_equal_worlds_panic_in_equal_words() -> None:
    said = []
    for _ in range(2):
        with puppets() as world:
            for way in ("index", "long", "while it speaks", "error", "\x1b[0m"):
                world.send(DO, panic(way, way))
            world.run(may_fail=True)
            said.append([each.message for each in world.faults()])

    assert said[0] == said[1]
    assert len(said[0]) == 5
    assert said[0][-1].endswith(": \ufffd[0m")
