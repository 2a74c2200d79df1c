"""Members take their shares of the worlds (spec/cluster.md, CL-230 to CL-233)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from blake3 import blake3

from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.member import LivingMembers
from aos.host.cluster.member_values import (
    MemberBeat,
    Preference,
    drain_value,
    drained_member,
    read_member_beat,
    read_preference,
)
from aos.host.cluster.placement import MemberView, WorldPlacement, place, weight
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

WORLDS = [content_hash(bytes([number])) for number in range(200)]
ALL = frozenset(WORLDS)


def members(*names: str, standbys: int = 1) -> list[MemberView]:
    return [MemberView(name=name, worlds=ALL, standbys=standbys) for name in names]


def test_the_weight_of_a_member_is_a_digest_over_world_and_name() -> None:  # CL-233
    world = Hash(bytes(32))
    preimage = b"\x83" + b"\x6baos/place/1" + b"\x58\x20" + bytes(32) + b"\x62m1"
    assert weight(world, "m1") == blake3(preimage).digest()
    assert weight(world, "m1").hex() == (
        "e07ad6f9dba9a89f9088aa497b584396d0136bb8a9182315728e3c986de0fe62"
    )
    views = [replace(view, worlds=frozenset([world])) for view in members("m1", "m2", "m3")]
    assert place(world, views).members == ("m1", "m3")


def test_the_order_of_the_members_does_not_matter() -> None:  # CL-233
    for world in WORLDS[:20]:
        assert place(world, members("a", "b", "c")) == place(world, members("c", "a", "b"))


@pytest.mark.parametrize("gone", ["a", "b", "c", "d"])
def test_without_a_member_only_its_worlds_move(gone: str) -> None:  # CL-233
    before = {world: place(world, members("a", "b", "c", "d")) for world in WORLDS}
    after = {
        world: place(world, members(*(name for name in "abcd" if name != gone))) for world in WORLDS
    }
    for world in WORLDS:
        if before[world].owner != gone:
            assert after[world].owner == before[world].owner
        else:
            assert after[world].owner == before[world].members[1], "its first standby"


def test_each_member_gets_a_fair_share() -> None:  # CL-233
    owners = Counter(place(world, members("a", "b", "c", "d")).owner for world in WORLDS)
    assert set(owners) == {*"abcd"}
    assert min(owners.values()) > len(WORLDS) // 8


def test_the_highest_number_of_standbys_counts() -> None:  # CL-233
    mixed = [*members("a", "b", standbys=0), *members("c", standbys=2)]
    assert len(place(WORLDS[0], mixed).members) == 3
    assert len(place(WORLDS[0], members("a", "b", "c", standbys=0)).members) == 1
    assert len(place(WORLDS[0], members("a", standbys=5)).members) == 1


def test_a_member_without_the_key_or_that_drains_gets_no_world() -> None:  # CL-233, CL-238
    [a, b] = members("a", "b")
    for other in (replace(b, worlds=frozenset()), replace(b, is_draining=True)):
        assert place(WORLDS[0], [a, other]) == WorldPlacement(owner="a", members=("a",))
    assert place(WORLDS[0], [replace(a, is_draining=True)]) == WorldPlacement(
        owner=None, members=()
    )
    assert place(WORLDS[0], []) == WorldPlacement(owner=None, members=())


def test_a_world_stays_where_an_operator_has_moved_it() -> None:  # CL-229
    for name in "abc":
        placement = place(WORLDS[0], members("a", "b", "c"), preferred=name)
        assert placement.owner == placement.members[0] == name
        assert len(placement.members) == 2
    silent = place(WORLDS[0], members("a", "b"), preferred="gone")
    assert silent == place(WORLDS[0], members("a", "b"))
    outside = place(WORLDS[0], members("a", "b"), preferred="by-hand", is_outside=True)
    assert (outside.owner, len(outside.members)) == ("by-hand", 1)


def test_a_member_lives_as_long_as_its_beat_changes() -> None:  # CL-232
    living, now_ns = LivingMembers(), 10**15
    for revision in range(1, 8):
        assert living.note({"a": revision, "b": 1}, now_ns) >= {"a"}
        now_ns += 10**9
    assert living.note({"a": 8, "b": 1}, now_ns) == {"a"}
    assert living.note({"a": 9, "b": 2}, now_ns) == {"a", "b"}, "it comes back"
    assert living.note({"a": 10}, now_ns) == {"a"}, "its beat was removed"


def test_time_without_answers_of_the_servers_counts_for_no_member() -> None:  # CL-232
    living, now_ns = LivingMembers(), 10**15
    living.note({"a": 1, "b": 1}, now_ns)
    for _ in range(20):
        living.note_unanswered()
        now_ns += LEASE_NS
        assert living.note({"a": 1, "b": 1}, now_ns) == {"a", "b"}
    assert living.note({"a": 2, "b": 1}, now_ns + 20 * LEASE_NS) == {"a", "b"}, "it was suspended"


BEAT = MemberBeat(
    name="m1", instance=b"i" * 16, standbys=1, worlds=(WORLDS[0], WORLDS[1]), seen=("m1", "m2")
)


def test_the_values_of_members_are_read_as_they_were_written() -> None:  # CL-231
    assert read_member_beat(BEAT.to_bytes()) == BEAT
    wish = Preference(name="shop.eu", world=WORLDS[0], node="m1")
    assert read_preference(wish.to_bytes()) == wish
    assert drained_member(drain_value("m1")) == "m1"


def test_other_bytes_are_no_value_of_a_member() -> None:  # CL-231
    for data in (b"", b"\xff" * 9, encode(["aos/member/1"]), encode("m1"), BEAT.to_bytes()[:-1]):
        assert read_member_beat(data) is None
        assert read_preference(data) is None
        assert drained_member(data) is None
    for changed in (
        replace(BEAT, name="a.b"), replace(BEAT, name="x" * 65), replace(BEAT, instance=b"i"),
        replace(BEAT, standbys=17), replace(BEAT, worlds=(Hash(b"short"),)),
        replace(BEAT, seen=("a b",)), replace(BEAT, worlds=tuple(WORLDS * 8)),
    ):  # fmt: skip
        assert read_member_beat(changed.to_bytes()) is None
