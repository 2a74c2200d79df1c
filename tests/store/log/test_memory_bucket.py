"""The bucket in memory: compare-and-set, and its faults (spec/cluster.md, CL-50 to CL-54)."""

from __future__ import annotations

import pytest

from aos.store.log.bucket import KEY, Bucket, BucketConflict, BucketEntry, BucketUnreachable
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate


def test_a_value_is_replaced_only_on_the_revision_that_the_writer_expects() -> None:  # CL-50
    shared = SharedBucket(now_ns=lambda: 7)
    bucket: Bucket = MemoryBucket(shared)
    assert bucket.get("w.a") is None
    first = bucket.create("w.a", b"1")
    other = bucket.create("w.b", b"x")
    second = bucket.replace("w.a", b"2", first)

    with pytest.raises(BucketConflict):
        bucket.create("w.a", b"3")
    with pytest.raises(BucketConflict):
        bucket.replace("w.a", b"3", first)
    with pytest.raises(BucketConflict):
        bucket.replace("w.c", b"3", first)

    assert first < other < second
    assert list(bucket.entries()) == [
        ("w.a", BucketEntry(b"2", second, 7)),
        ("w.b", BucketEntry(b"x", other, 7)),
    ]


@pytest.mark.parametrize(
    ("fate", "is_written"), [(Fate.UNANSWERED, True), (Fate.LOST, False), (Fate.LATE, False)]
)
def test_without_an_answer_it_is_unknown_whether_a_value_was_written(
    fate: Fate, is_written: bool
) -> None:  # CL-51
    shared = SharedBucket()
    bucket = MemoryBucket(shared, lambda: fate)

    with pytest.raises(BucketUnreachable):
        bucket.create("w.a", b"1")

    assert (bucket.get("w.a") is not None) == is_written


def test_a_conflict_may_come_from_the_writer_itself() -> None:  # CL-52
    bucket = MemoryBucket(SharedBucket(), lambda: Fate.DOUBLED)

    with pytest.raises(BucketConflict):
        bucket.create("w.a", b"1")

    entry = bucket.get("w.a")
    assert entry is not None
    assert entry.value == b"1"


def test_a_late_write_meets_a_changed_value_and_is_dropped() -> None:  # CL-54
    shared = SharedBucket()
    fates = [Fate.LATE, Fate.ANSWERED]
    bucket = MemoryBucket(shared, lambda: fates.pop(0))
    with pytest.raises(BucketUnreachable):
        bucket.create("w.a", b"late")
    revision = bucket.create("w.a", b"1")

    shared.arrive()

    assert bucket.get("w.a") == BucketEntry(b"1", revision, 0)
    assert not shared.late


def test_a_former_leader_answers_reads_with_what_it_had_and_no_write() -> None:  # CL-54
    shared = SharedBucket()
    bucket, other = MemoryBucket(shared), MemoryBucket(shared)
    revision = bucket.create("w.a", b"1")
    bucket.isolate()
    newer = other.replace("w.a", b"2", revision)

    assert bucket.get("w.a") == BucketEntry(b"1", revision, 0)
    with pytest.raises(BucketUnreachable):
        bucket.replace("w.a", b"3", newer)
    bucket.rejoin()
    assert bucket.get("w.a") == BucketEntry(b"2", newer, 0)


def test_a_bucket_that_is_away_answers_nothing() -> None:
    bucket = MemoryBucket(SharedBucket())
    bucket.is_away = True
    for ask in (lambda: bucket.get("w.a"), lambda: list(bucket.entries())):
        with pytest.raises(BucketUnreachable):
            ask()
    with pytest.raises(BucketUnreachable):
        bucket.create("w.a", b"1")


def test_keys_are_names_with_dots_between_them() -> None:  # CL-50
    assert all(map(KEY.fullmatch, ("a", "shop-1.node_2", "A.b.9")))
    assert not any(map(KEY.fullmatch, ("", ".", "a.", ".a", "a..b", "a b", "a/b", "a*", "ä")))
