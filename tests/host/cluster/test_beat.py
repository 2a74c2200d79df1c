"""Beats have one form, and only the key of the world makes them (spec/cluster.md, CL-70, CL-71)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nacl.signing import SigningKey

from aos.host.cluster.beat import Beat, read_beat
from aos.store.log.logged_store import LogEnd
from aos.values.cbor import encode
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY

KEY = bytes(WORLD_KEY.verify_key)
END = LogEnd(position=7, seq=12, frame=content_hash(b"frame"))
BEAT = Beat(world=WORLD, node="node-1", instance=b"i" * 16, inbox="aos.inbox.1", end=END)


@pytest.mark.parametrize(("released", "to"), [(False, None), (True, None), (True, "node-2")])
def test_a_beat_that_is_read_is_the_one_that_was_written(  # CL-70, CL-226
    released: bool, to: str | None
) -> None:
    beat = replace(BEAT, released=released, release="0.2.0", to=to).signed(WORLD_KEY)
    assert read_beat(beat.to_bytes(), WORLD, KEY) == beat


def test_a_beat_that_another_key_has_signed_is_none() -> None:  # CL-71
    assert read_beat(BEAT.signed(SigningKey(b"x" * 32)).to_bytes(), WORLD, KEY) is None
    assert read_beat(BEAT.to_bytes(), WORLD, KEY) is None
    signed = BEAT.signed(WORLD_KEY)
    for changed in (
        replace(signed, node="node-2"), replace(signed, instance=b"j" * 16),
        replace(signed, inbox="other"), replace(signed, released=True),
        replace(signed, end=replace(END, position=8)), replace(signed, end=replace(END, seq=13)),
        replace(signed, end=replace(END, frame=content_hash(b"other"))),
        replace(signed, release="9"), replace(signed, to="node-2"),
    ):  # fmt: skip
        assert read_beat(changed.to_bytes(), WORLD, KEY) is None


def test_a_beat_of_another_world_is_none() -> None:  # CL-71
    other = content_hash(b"other world")
    assert read_beat(BEAT.signed(WORLD_KEY).to_bytes(), other, KEY) is None
    assert read_beat(replace(BEAT, world=other).signed(WORLD_KEY).to_bytes(), WORLD, KEY) is None


def test_other_bytes_are_no_beat() -> None:  # CL-71
    data = BEAT.signed(WORLD_KEY).to_bytes()
    for other in (b"", data[:-1], data + b"\x00", encode(["aos/beat/1"]), b"\xff" * 40):
        assert read_beat(other, WORLD, KEY) is None
    for node in ("", "a b", "a.b", "x" * 65):
        assert read_beat(replace(BEAT, node=node).signed(WORLD_KEY).to_bytes(), WORLD, KEY) is None
    for changed in (replace(BEAT, to="a.b"), replace(BEAT, release="1\n2")):
        assert read_beat(changed.signed(WORLD_KEY).to_bytes(), WORLD, KEY) is None
