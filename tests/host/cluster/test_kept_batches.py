"""The batches of a replicated world in its bucket (spec/cluster.md, CL-335)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from aos.errors import BadUsage
from aos.host.cluster.kept_batches import (
    ROW_BYTES_MAX,
    SLOTS,
    KeptBatch,
    KeptBatches,
    read_batch,
)
from aos.host.cluster.kept_values import remove_kept_values
from aos.store.log.bucket import BATCHES, POSITIONS, BucketUnreachable
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY


def batches(shared: SharedBucket, fates: list[Fate] | None = None) -> KeptBatches:
    """The batches as one process sees them. The next writes have these fates."""
    left = fates or []

    def fate() -> Fate:
        return left.pop(0) if left else Fate.ANSWERED

    return KeptBatches(MemoryBucket(shared, fate), WORLD, WORLD_KEY)


def test_a_batch_goes_forwards_only() -> None:
    shared = SharedBucket()
    first, next_owner = batches(shared), batches(shared)
    assert first.keep("one..", 0, b"0")
    assert first.keep("two", 0, b"0")
    assert sorted(next_owner.load()) == [b"0", b"0"]
    assert next_owner.keep("one..", 64, b"64")
    assert not first.keep("one..", 32, b"32")
    assert first.keep("one..", 64, b"64"), "it is there already"
    assert sorted(first.load()) == [b"0", b"64"]


def test_a_new_batch_takes_a_free_slot_or_that_of_one_that_is_over() -> None:
    """CL-338"""
    shared = SharedBucket()
    first, next_owner = batches(shared), batches(shared)
    for number in range(SLOTS):
        assert first.keep(f"b-{number}", number, b"%d" % number)
    for instead_of in (None, "b-2", "none"):
        with pytest.raises(BadUsage, match="no slot"):
            next_owner.keep("new", 0, b"new", instead_of=instead_of)
    assert next_owner.keep("new", 0, b"new", instead_of="b-3")
    assert len(shared.rows) == SLOTS
    rows = first.load()
    assert b"new" in rows
    assert b"3" not in rows
    assert next_owner.keep("new", 2, b"more")
    assert b"more" in first.load()
    assert first.keep("late", 0, b"late", instead_of="b-5")
    assert not {b"3", b"5"} & set(next_owner.load())


def test_a_batch_that_has_left_the_servers_is_not_written_again() -> None:
    """CL-339: by an owner that does not know it yet. Nothing else of the world is in its way."""
    shared = SharedBucket()
    first, next_owner = batches(shared), batches(shared)
    assert first.keep("one", 0, b"0")
    assert next_owner.load() == [b"0"]
    remove_kept_values(MemoryBucket(shared), WORLD)
    for owner in (first, next_owner):
        assert not owner.keep("one", 64, b"64")
        assert not owner.keep("one", 64, b"64")
    assert shared.rows == {}
    assert first.load() == []
    assert first.keep("one", 70, b"70"), "the folder that has it brings it back"


@pytest.mark.parametrize("fate", [Fate.UNANSWERED, Fate.LOST, Fate.LATE])
def test_a_write_without_an_answer_is_repeated(fate: Fate) -> None:
    shared = SharedBucket()
    kept = batches(shared, [fate])
    with pytest.raises(BucketUnreachable):
        kept.keep("one", 0, b"0")
    assert kept.keep("one", 0, b"0")
    shared.arrive()
    assert kept.keep("one", 1, b"1")
    assert list(kept.load()) == [b"1"]


def test_values_that_the_world_has_not_signed_for_their_key_do_not_count() -> None:
    shared = SharedBucket()
    kept = batches(shared)
    assert kept.keep("one", 5, b"row")
    [key] = shared.rows
    assert key.startswith(f"{BATCHES}.")
    batch = KeptBatch(world=WORLD, id="one", progress=9, row=b"forged")
    for value in (
        batch.signed(SigningKey(b"x" * 32)).to_bytes(),
        replace(batch, world=content_hash(b"other")).signed(WORLD_KEY).to_bytes(),
        replace(batch.signed(WORLD_KEY), progress=8).to_bytes(),
        b"",
    ):
        shared.rows[key] = shared.rows[key]._replace(value=value)
        assert list(kept.load()) == []
    assert kept.keep("one", 6, b"row")
    assert list(kept.load()) == [b"row"]


def test_a_batch_that_is_too_long_is_refused() -> None:
    kept = batches(SharedBucket())
    assert kept.keep("a" * 64, 0, bytes(ROW_BYTES_MAX))
    for id, row in (("a" * 65, b""), ("one", bytes(ROW_BYTES_MAX + 1))):
        with pytest.raises(BadUsage):
            kept.keep(id, 0, row)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_batch(data: bytes) -> None:
    assert read_batch(data) is None


def test_registrations_are_read_without_the_values_of_batches_and_positions() -> None:
    """CL-231: members read the bucket once a second."""
    shared = SharedBucket()
    assert batches(shared).keep("one", 0, b"row")
    bucket = MemoryBucket(shared)
    for key in ("_aos.batch-1", "_aos.drain.m", "shop"):
        bucket.create(key, b"")

    names = [key for key, _ in bucket.entries(without=(BATCHES, POSITIONS))]

    assert names == ["_aos.batch-1", "_aos.drain.m", "shop"]
