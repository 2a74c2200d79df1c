"""Beats in a bucket: compare-and-set, conflicts, release (spec/cluster.md, CL-72 to CL-74)."""

from __future__ import annotations

import pytest

from aos.errors import Refused
from aos.host.cluster.beating import Beats
from aos.store.log.bucket import BucketConflict, BucketUnreachable
from aos.store.log.logged_store import LogEnd
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY

END = LogEnd(position=7, seq=12, frame=content_hash(b"frame"))
NOW_NS = 1_700_000_000_000_000_000


def beats(shared: SharedBucket, node: str, *fates: Fate, instance: str = "") -> Beats:
    remaining = list(fates)
    return Beats(
        MemoryBucket(shared, lambda: remaining.pop(0) if remaining else Fate.ANSWERED),
        stream="shop-1", world=WORLD, key=WORLD_KEY, node=node,
        instance=(instance or node).encode().ljust(16, b"."), inbox=f"inbox.{node}",
    )  # fmt: skip


@pytest.fixture
def shared() -> SharedBucket:
    return SharedBucket(now_ns=lambda: NOW_NS)


def owner_of(node: Beats) -> str | None:
    beat = node.owner().beat
    return None if beat is None else beat.node


def test_standbys_beat_and_see_one_another(shared: SharedBucket) -> None:  # CL-72
    a, b = beats(shared, "a"), beats(shared, "b")
    assert a.stand_by(END) == NOW_NS
    assert b.stand_by(END) == NOW_NS
    a.stand_by(END)
    names = [read.beat.node for read in a.standbys() if read.beat is not None]
    assert names == ["a", "b"]
    assert owner_of(a) is None


def test_an_owner_replaces_its_own_beat_alone(shared: SharedBucket) -> None:  # CL-73
    a, b = beats(shared, "a"), beats(shared, "b")
    a.claim(END)
    assert a.renew(END) == NOW_NS
    b.claim(END)

    assert a.renew(END) is None
    a.release(END)

    assert owner_of(a) == "b"
    assert b.renew(END) == NOW_NS
    a.claim(END)
    assert b.renew(END) is None


@pytest.mark.parametrize("fate", [Fate.UNANSWERED, Fate.LOST, Fate.LATE, Fate.DOUBLED])
def test_a_conflict_with_an_own_beat_is_none(shared: SharedBucket, fate: Fate) -> None:  # CL-73
    a = beats(shared, "a", Fate.ANSWERED, fate)
    a.claim(END)
    if fate is Fate.DOUBLED:
        assert a.renew(END) == NOW_NS
    else:
        with pytest.raises(BucketUnreachable):
            a.renew(END)
    shared.arrive()

    assert a.renew(END) == NOW_NS
    assert owner_of(a) == "a"


def test_a_bucket_that_lost_its_values_gets_the_beat_again(shared: SharedBucket) -> None:  # CL-73
    a = beats(shared, "a")
    a.claim(END)
    shared.rows.clear()
    assert a.renew(END) == NOW_NS
    assert owner_of(a) == "a"


def test_a_value_that_is_no_beat_is_replaced_by_a_claim(shared: SharedBucket) -> None:  # CL-71
    a = beats(shared, "a")
    MemoryBucket(shared).create("shop-1.owner", b"forged")
    assert owner_of(a) is None
    assert a.owner().revision > 0
    a.claim(END)
    assert a.renew(END) == NOW_NS


def test_an_owner_that_has_released_the_world_says_so(shared: SharedBucket) -> None:  # CL-82
    a = beats(shared, "a")
    a.claim(END)
    a.release(END)
    beat = a.owner().beat
    assert beat is not None
    assert (beat.node, beat.released, beat.end) == ("a", True, END)


def test_of_two_processes_with_one_name_the_later_one_is_refused(shared: SharedBucket) -> None:
    """CL-116."""
    first, second = beats(shared, "a", instance="1"), beats(shared, "a", instance="2")
    first.stand_by(END)

    def both() -> None:
        for _ in range(10):
            second.stand_by(END)
            first.stand_by(END)

    with pytest.raises(Refused, match="another process runs under the name of this node"):
        both()
    for _ in range(10):
        first.stand_by(END)


def test_a_process_with_the_name_of_the_owner_is_refused(shared: SharedBucket) -> None:  # CL-116
    owner, standby = beats(shared, "a", instance="1"), beats(shared, "a", instance="2")
    owner.claim(END)

    def both() -> None:
        for _ in range(10):
            standby.owner()
            owner.renew(END)

    with pytest.raises(Refused, match="another process runs under the name of this node"):
        both()


def test_a_node_that_starts_again_is_no_namesake_of_its_last_process(  # CL-116
    shared: SharedBucket,
) -> None:
    earlier = beats(shared, "a", Fate.ANSWERED, Fate.ANSWERED, Fate.LATE, Fate.LATE, instance="1")
    earlier.stand_by(END)
    earlier.claim(END)
    for _ in range(2):
        with pytest.raises(BucketUnreachable):
            earlier.stand_by(END)
    again = beats(shared, "a", instance="2")
    for _ in range(10):
        shared.arrive()
        again.stand_by(END)
        again.owner()


def test_a_key_that_changes_again_and_again_is_a_conflict(shared: SharedBucket) -> None:
    a, b = beats(shared, "a"), beats(shared, "a", *[Fate.DOUBLED] * 9)
    a.stand_by(END)
    with pytest.raises(BucketConflict):
        b.stand_by(END)
