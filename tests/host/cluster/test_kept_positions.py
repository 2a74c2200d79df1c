"""Where webhooks and spans continue after a takeover (spec/cluster.md, CL-330, CL-331)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from aos.errors import BadUsage
from aos.host.cluster.kept_positions import (
    MORE_BYTES_MAX,
    KeptPosition,
    KeptPositions,
    position_key,
    read_position,
)
from aos.store.log.bucket import KEY, BucketUnreachable
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import Fate
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY

READER = "webhook/shop.orders-1."
STREAM = "AOS-1"


def positions(
    shared: SharedBucket, stream: str = STREAM, fates: list[Fate] | None = None
) -> KeptPositions:
    """The positions of one process. The next writes have these fates."""
    left = fates or []

    def fate() -> Fate:
        return left.pop(0) if left else Fate.ANSWERED

    return KeptPositions(MemoryBucket(shared, fate), WORLD, WORLD_KEY, lambda: stream)


def kept_place(kept: KeptPositions) -> tuple[int, int] | None:
    position = kept.load(READER)
    return None if position is None else position.place


def test_a_position_is_read_as_it_was_kept_and_goes_forwards_only() -> None:
    shared = SharedBucket()
    first, next_owner = positions(shared), positions(shared)
    assert kept_place(first) is None
    assert first.keep(READER, 7, 2, b"more")
    position = next_owner.load(READER)
    assert position is not None
    assert (position.place, position.reader_bytes, position.stream) == ((7, 2), b"more", STREAM)
    assert next_owner.keep(READER, 7, 3, b"")
    assert not first.keep(READER, 7, 2, b"more"), "a later one is there"
    assert first.keep(READER, 7, 3, b""), "the same one is kept"
    assert first.keep(READER, 8, 0, b"")
    assert kept_place(next_owner) == (8, 0)
    assert next_owner.load("webhook/other") is None
    assert KEY.fullmatch(position_key(WORLD, READER))


@pytest.mark.parametrize("fate", [Fate.UNANSWERED, Fate.LOST, Fate.LATE])
def test_a_write_without_an_answer_is_repeated(fate: Fate) -> None:
    shared = SharedBucket()
    assert positions(shared).keep(READER, 1, 0, b"")
    kept = positions(shared, fates=[fate])
    with pytest.raises(BucketUnreachable):
        kept.keep(READER, 2, 0, b"")
    assert kept.keep(READER, 2, 0, b"")
    shared.arrive()
    assert kept.keep(READER, 3, 0, b"")
    assert kept_place(kept) == (3, 0)


def test_a_write_that_arrives_twice_is_no_conflict() -> None:
    shared = SharedBucket()
    assert positions(shared, fates=[Fate.DOUBLED]).keep(READER, 1, 0, b"")
    assert positions(shared, fates=[Fate.DOUBLED]).keep(READER, 2, 0, b"")


def test_a_position_of_another_stream_or_key_does_not_count() -> None:
    """CL-331: a world that has lost records begins at an earlier place."""
    shared = SharedBucket()
    assert positions(shared).keep(READER, 9, 0, b"")
    restored = positions(shared, "AOS-2")
    assert kept_place(restored) is None
    assert restored.keep(READER, 4, 0, b"")
    assert kept_place(restored) == (4, 0)
    key = position_key(WORLD, READER)
    position = KeptPosition(world=WORLD, stream="AOS-2", reader=READER, seq=99)
    other_world = replace(position, world=content_hash(b"other"))
    forged = [
        position.signed(SigningKey(b"x" * 32)),
        other_world.signed(WORLD_KEY),
        replace(position, reader="webhook/other").signed(WORLD_KEY),
        replace(position.signed(WORLD_KEY), seq=100),
    ]
    for value in (*(each.to_bytes() for each in forged), b"", b"\x80"):
        shared.rows[key] = shared.rows[key]._replace(value=value)
        assert kept_place(restored) is None
    assert restored.keep(READER, 5, 0, b""), "it is replaced"
    assert kept_place(restored) == (5, 0)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_position(data: bytes) -> None:
    assert read_position(data) is None


def test_a_position_that_is_too_long_is_refused() -> None:
    kept = positions(SharedBucket())
    assert kept.keep(READER, 1, 0, bytes(MORE_BYTES_MAX))
    for reader, more in ((READER, bytes(MORE_BYTES_MAX + 1)), ("r" * 101, b"")):
        with pytest.raises(BadUsage):
            kept.keep(reader, 2, 0, more)
