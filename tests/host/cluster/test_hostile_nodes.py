"""Nodes that should not run as they do: under one name, in a copied folder, suspended for a minute,
with another key, or of an older release (spec/cluster.md, CL-61, CL-73, CL-85, CL-89, CL-93)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Head, seal
from aos.errors import Damage, Refused
from aos.host.cluster.beating import Beats
from aos.host.cluster.lease import Decision
from aos.host.cluster.replica import Replica, Role
from aos.store.errors import Deposed
from aos.store.log.entry import FramesEntry, parts_of
from aos.store.log.logged_store import LoggedStore
from aos.values.cbor import encode
from tests.host.cluster.owner_process import PART_BYTES, WORLD
from tests.host.cluster.test_replica import STREAM, Cluster, Node, starts
from tests.memory_world import WORLD_KEY


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    for node in cluster.nodes:
        node.close()


def beats_of(node: Node, instance: bytes, *, name: str, key: SigningKey = WORLD_KEY) -> Beats:
    return Beats(
        node.bucket, stream=STREAM, world=WORLD, key=key, node=name, instance=instance,
        inbox="inbox",
    )  # fmt: skip


def test_a_copied_folder_beside_its_original_makes_no_second_history(cluster: Cluster) -> None:
    """CL-92, CL-116: both have one name and one journal; the one that came later ends, and the
    other one owns the world."""
    original, copy = cluster.node("a"), cluster.node("b")
    cluster.pass_time(4, original)
    owner = original.own()
    owner.apply()
    owner.write()
    original.close()
    copy.close()
    shutil.rmtree(copy.folder)
    shutil.copytree(original.folder, copy.folder)
    for node, instance in ((original, b"1" * 16), (copy, b"2" * 16)):
        node.store = LoggedStore.open(node.folder)
        beats = beats_of(node, instance, name="a")
        node.replica = Replica(node.store, node.log, beats, node.settings)
        node.replica.restore()

    with pytest.raises(Refused, match="another process runs under the name of this node"):
        cluster.pass_time(8, original, copy)
    copy.replica.close()
    cluster.pass_time(8, original)

    assert original.replica.role is Role.OWNING
    owner = original.own()
    owner.tell("k", submission="s1")
    owner.write()
    copied_head = copy.store.head()
    assert copied_head is not None
    assert starts(original.store) == ["a", "a"]
    frame = original.store.frame_at(copied_head.seq)
    assert frame is not None
    assert frame.hash == copied_head.frame, "the copy has a part of the one journal"


def test_two_processes_under_one_name_do_not_count_as_one_that_lives(cluster: Cluster) -> None:
    """CL-73: each sees that the other one writes its beat, and a conflict is no answer."""
    node = cluster.node("a")
    first = beats_of(node, b"1" * 16, name="a")
    second = beats_of(node, b"2" * 16, name="a")
    for beats in (first, second, first):
        beats.stand_by(node.store.end)
    first.claim(node.store.end)
    second.claim(node.store.end)

    assert first.renew(node.store.end) is None, "another process has replaced it"
    [beat] = [read.beat for read in first.standbys()]
    assert beat is not None
    assert beat.instance == b"1" * 16


def test_an_owner_that_was_stopped_for_a_minute_does_nothing_before_it_has_read(
    cluster: Cluster,
) -> None:
    """CL-89, CL-93"""
    a, b = cluster.node("a"), cluster.node("b")
    cluster.pass_time(4, a, b)
    owner = a.own()
    owner.apply()
    owner.write()
    assert a.replica.holds_lease()
    cluster.pass_time(60, b)

    assert b.replica.role is Role.OWNING
    assert not a.replica.holds_lease(), "it hands out no task"
    assert isinstance(owner.tell("k", submission="late"), Admitted)
    owner.run()
    with pytest.raises(Deposed):
        owner.commit()
    assert a.replica.own_turn() is Decision.READ_LOG
    a.replica.close()
    a.replica.restore()
    cluster.pass_time(1, a, b)
    assert a.store.head() == b.store.head()
    assert starts(a.store) == ["a", "b"]


def test_a_node_with_another_key_can_neither_own_the_world_nor_mislead_others(
    cluster: Cluster,
) -> None:
    """CL-71, LG-11"""
    a, b = cluster.node("a"), cluster.node("b")
    cluster.pass_time(4, a, b)
    other_key = SigningKey(b"o" * 32)
    tip = b.replica.intake.current().tip
    frame, foreign_tip = seal(tip, [encode({"kind": "event"})], b"s" * 32)
    entry = FramesEntry(
        frames=(frame,), head=Head.of(foreign_tip).signed(other_key), blobs=(), notes={}
    )  # fmt: skip
    for part in parts_of(entry.to_bytes(), PART_BYTES):
        cluster.stream.publish(part)
    foreign = beats_of(b, b"3" * 16, name="x", key=other_key)
    foreign.claim(b.store.end)

    assert a.replica.own_turn() is Decision.READ_LOG
    a.store.check_owns()
    a.replica.replace_beat()
    cluster.pass_time(8, a, b)

    assert (a.replica.role, b.replica.role) == (Role.OWNING, Role.FOLLOWING)
    assert a.replica.own_turn() is Decision.OWN
    assert b.store.head() == a.store.head()


def test_a_node_of_an_older_release_stops_and_says_so(cluster: Cluster) -> None:  # CL-61, CL-96
    """Before a record that it does not know; nothing of that is in its store, again and again."""
    a, b = cluster.node("a"), cluster.node("b")
    cluster.pass_time(4, a, b)
    tip, head = b.replica.intake.current().tip, b.store.head()
    frame, new_tip = seal(tip, [encode({"kind": "wish", "seq": tip.seq + 1})], b"s" * 32)
    entry = FramesEntry(
        frames=(frame,), head=Head.of(new_tip).signed(WORLD_KEY), blobs=(), notes={}
    )  # fmt: skip
    for part in parts_of(entry.to_bytes(), PART_BYTES):
        cluster.stream.publish(part)

    for _ in range(2):
        with pytest.raises(Damage, match='record kind "wish" is unknown: a newer release wrote'):
            b.replica.turn()
        assert b.store.head() == head
        b.replica.close()
        b.replica.restore()
