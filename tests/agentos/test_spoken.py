"""The ABI of the module that asked for an effect, whatever manifest is in force now (AG-26)."""

from __future__ import annotations

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame
from aos.core.journal.inputs import PIN
from aos.core.state.cell import OpenIntent
from aos.errors import Pruned
from aos.host.executors.intent_abi import IntentAbis
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.agentos.test_forms import NAME, Play


class Journal:
    def __init__(self, play: Play, *, is_pruned: bool = False) -> None:
        self._world = play.world
        self._is_pruned = is_pruned

    def frame_at(self, seq: int) -> Frame | None:
        if self._is_pruned:
            raise Pruned("gone")
        frames = self._world.frames
        found = [each for each in frames if each.header.first <= seq]
        return found[-1] if found else None

    def blob(self, hash: Hash) -> bytes:
        return self._world.read(hash)


def asked(play: Play, id: str = "abc") -> OpenIntent:
    effect = {"kind": "t/ask@1", "params_cbor": encode({"id": id, "blob": None})}
    play.answer = {"state": encode({"n": 1}), "effects": [effect]}
    play.world.send("t/Ask@1", {"id": id, "blob": None})
    play.world.run()
    return list(play.world.state.intents.values())[-1]


@pytest.fixture(params=[("aos/1", "agentos"), ("agentos", "aos/1")])
def abis(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


def test_a_pinned_instance_keeps_its_abi(abis: tuple[str, str]) -> None:
    old, new = abis
    play = Play(abi=old)
    first = asked(play)
    spoken = IntentAbis(Journal(play))
    spoken.start(play.world.kernel.manifests())
    assert spoken.of(first) == old

    loaded = Play.loaded(abi=new, version=2)
    applied = play.world.apply(loaded, {NAME: play.step}, mode=PIN)
    assert isinstance(applied, Admitted), applied
    pinned, fresh = asked(play), asked(play, "other")
    spoken.add(play.world.effective)

    assert [spoken.of(each) for each in (first, pinned, fresh)] == [old, old, new]


def test_after_a_restart_too(abis: tuple[str, str]) -> None:
    old, new = abis
    play = Play(abi=old)
    asked(play)
    play.world.apply(Play.loaded(abi=new, version=2), {NAME: play.step}, mode=PIN)
    spoken = IntentAbis(Journal(play))
    spoken.start(play.world.kernel.manifests())

    assert [spoken.of(asked(play)), spoken.of(asked(play, "other"))] == [old, new]


def test_of_what_was_pruned_the_newest_counts() -> None:
    play = Play(abi="aos/1")
    first = asked(play)
    spoken = IntentAbis(Journal(play, is_pruned=True))
    spoken.start(play.world.kernel.manifests())
    spoken.add(Play.loaded(version=2).effective)

    assert spoken.of(first) == "agentos"
