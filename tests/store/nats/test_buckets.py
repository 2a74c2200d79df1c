"""The bucket in memory and the buckets on NATS behave the same (spec/cluster.md, CL-25, CL-50 to
CL-53)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from aos.errors import Damage, Refused
from aos.store.log.bucket import VALUE_BYTES_MAX, Bucket, BucketConflict, BucketUnreachable
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_errors import JetStreamError
from aos.store.log.nats_stream import bucket_settings
from tests.nats_servers import Servers, asked, state_of


@dataclass
class Buckets:
    """A bucket, and another program's view of it. ``prefix`` begins the keys of this test."""

    bucket: Bucket
    other: Callable[[], Bucket]
    prefix: str

    def own(self) -> dict[str, bytes]:
        return {
            key.removeprefix(self.prefix): entry.value
            for key, entry in self.bucket.entries()
            if key.startswith(self.prefix)
        }


@pytest.fixture(params=["memory", "AOS on one", "AOS_BEATS on one", "AOS on three"])
def buckets(request: pytest.FixtureRequest) -> Iterator[Buckets]:
    prefix = f"t{os.urandom(8).hex()}."
    if request.param == "memory":
        shared = SharedBucket(now_ns=time.time_ns)
        yield Buckets(MemoryBucket(shared), lambda: MemoryBucket(shared), prefix)
        return
    name, _, count = request.param.partition(" on ")
    fixture, replicas = ("server", 1) if count == "one" else ("three", 3)
    servers: Servers = request.getfixturevalue(fixture)
    with servers.connected() as connection, servers.connected() as other:
        yield Buckets(
            NatsBucket(connection, name, replicas=replicas),
            lambda: NatsBucket(other, name, replicas=replicas),
            prefix,
        )


def test_a_value_is_replaced_only_on_the_revision_that_the_writer_expects(buckets: Buckets) -> None:
    # CL-50
    bucket, key, free = buckets.bucket, f"{buckets.prefix}a", f"{buckets.prefix}c"
    assert bucket.get(key) is None
    first = bucket.create(key, b"1")
    between = bucket.create(f"{buckets.prefix}b", b"x")
    second = bucket.replace(key, b"2", first)

    with pytest.raises(BucketConflict):
        bucket.create(key, b"3")
    for revision in (first, between, second + 1):
        with pytest.raises(BucketConflict):
            buckets.other().replace(key, b"3", revision)
    with pytest.raises(BucketConflict):
        bucket.replace(free, b"3", second)

    assert first < between < second
    for view in (bucket, buckets.other()):
        entry = view.get(key)
        assert entry is not None
        assert (entry.value, entry.revision) == (b"2", second)
        assert abs(entry.written_ns - time.time_ns()) < 60e9
    assert bucket.get(free) is None
    assert buckets.own() == {"a": b"2", "b": b"x"}


def test_any_bytes_are_a_value(buckets: Buckets) -> None:  # CL-50
    values = [b"", b"\x00\xff\r\n", os.urandom(VALUE_BYTES_MAX)]
    for number, value in enumerate(values):
        buckets.bucket.create(f"{buckets.prefix}k-{number}_x", value)

    assert list(buckets.own().values()) == values


def test_of_two_writers_on_one_revision_one_wins(buckets: Buckets) -> None:  # CL-50
    key = f"{buckets.prefix}a"
    revision = buckets.bucket.create(key, b"0")
    other = buckets.other()
    for number in range(10):
        winner, loser = (buckets.bucket, other) if number % 2 else (other, buckets.bucket)
        newer = winner.replace(key, b"%d" % number, revision)
        with pytest.raises(BucketConflict):
            loser.replace(key, b"lost", revision)
        revision = newer

    assert buckets.own() == {"a": b"9"}


def test_entries_are_ascending_by_key(buckets: Buckets) -> None:  # CL-50
    for key in ("b", "a.x", "a-y", "C"):
        buckets.bucket.create(buckets.prefix + key, key.encode())

    assert list(buckets.own()) == ["C", "a-y", "a.x", "b"]


def test_a_key_that_was_deleted_by_hand_has_no_value_and_can_get_one(  # CL-25
    server: Servers, connection: NatsConnection
) -> None:
    bucket = NatsBucket(connection, WORLDS, replicas=1)
    key = f"t{os.urandom(8).hex()}"
    first = bucket.create(key, b"1")

    async def delete() -> None:
        session = await connection.session()
        headers = {"KV-Operation": "DEL"}
        await (await session.send(f"$KV.{WORLDS}.{key}", b"", headers))

    connection.run(delete())

    assert bucket.get(key) is None
    assert key not in dict(bucket.entries())
    with pytest.raises(BucketConflict):
        bucket.replace(key, b"2", first)
    assert bucket.create(key, b"3") > first
    with pytest.raises(BucketConflict):
        bucket.create(key, b"4")


def delete_beats(connection: NatsConnection) -> None:
    """Delete the bucket of beats, which another test may have made."""
    with contextlib.suppress(JetStreamError):
        asked(connection, "STREAM.DELETE.KV_AOS_BEATS", {})


@pytest.mark.parametrize(
    ("field", "value"),
    [("storage", "memory"), ("allow_direct", True), ("max_age", 10**12), ("max_bytes", 10**6),
     ("max_msgs_per_subject", 2), ("allow_rollup_hdrs", True)],
)  # fmt: skip
def test_a_bucket_with_another_setting_is_refused(  # CL-25, CL-13
    three: Servers, field: str, value: object
) -> None:
    settings = bucket_settings("AOS_BEATS", 1, in_memory=True)
    if field == "storage":
        value = "file"
    with three.connected() as connection:
        delete_beats(connection)
        asked(connection, "STREAM.CREATE.KV_AOS_BEATS", {**settings, field: value})
        try:
            with pytest.raises(Refused, match=f"setting {field} of a stream differs"):
                NatsBucket(connection, BEATS, replicas=1)
            assert state_of(connection, "KV_AOS_BEATS").settings[field] == value
        finally:
            asked(connection, "STREAM.DELETE.KV_AOS_BEATS", {})


def test_a_bucket_may_have_more_replicas_than_a_world_and_not_fewer(three: Servers) -> None:
    """CL-25: worlds with 1 and with 3 replicas share it."""
    with three.connected() as connection:
        delete_beats(connection)
        try:
            for replicas in (3, 1):
                NatsBucket(connection, BEATS, replicas=replicas)
                assert state_of(connection, "KV_AOS_BEATS").replica_count == 3
            asked(connection, "STREAM.DELETE.KV_AOS_BEATS", {})
            NatsBucket(connection, BEATS, replicas=1)
            with pytest.raises(Refused, match=r"num_replicas of a stream differs.*expected 3"):
                NatsBucket(connection, BEATS, replicas=3)
        finally:
            asked(connection, "STREAM.DELETE.KV_AOS_BEATS", {})


def test_a_bucket_that_is_gone_is_damage_and_one_that_is_away_unreachable(  # CL-51
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        servers.start()
        with servers.connected(answer_seconds=ANSWER_SECONDS) as connection:
            bucket = NatsBucket(connection, WORLDS, replicas=1)
            revision = bucket.create("shop", b"1")
            asked(connection, "STREAM.DELETE.KV_AOS", {})
            with pytest.raises(Damage, match="the stream is missing: expected the stream KV_AOS"):
                bucket.get("shop")
            with pytest.raises(BucketUnreachable):
                bucket.replace("shop", b"2", revision)
            servers.kill(servers.servers[0])
            for ask in (lambda: bucket.get("shop"), lambda: list(bucket.entries())):
                with pytest.raises(BucketUnreachable):
                    ask()


def test_keys_can_be_left_out(buckets: Buckets) -> None:
    # CL-231: members leave out what fronts keep
    bucket, below = buckets.bucket, buckets.prefix.removesuffix(".")
    for name in ("a.1", "a.2", "a-1", "b"):
        bucket.create(f"{below}.{name}", name.encode())

    rows = list(bucket.entries(below, without=(f"{below}.a", f"{below}.none")))

    assert [entry.value for _, entry in rows] == [b"a-1", b"b"]
