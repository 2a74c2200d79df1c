"""Bases, joining and moving on real servers (spec/cluster.md, CL-130 to CL-165)."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.errors import AosError, Damage, Refused
from aos.host.cluster.base import ABANDONED_NS, WorldServers, make_base
from aos.host.cluster.base_maker import LOOK_NS, BaseMaker
from aos.host.cluster.connecting import connected_servers, durability_check
from aos.host.cluster.following import open_world
from aos.host.cluster.forgetting import forget_node
from aos.host.cluster.joining import join_world
from aos.host.cluster.registration import WorldRegistration, register, registered
from aos.host.cluster.replicating import replicate, restore_log, take_out
from aos.host.folder.folder import STORE, WORLD_FILE, open_folder
from aos.host.folder.making import init_world
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.node.brought_values import bring_to_folder
from aos.store.log.entry import parts_of
from aos.store.log.log import LogSealed, LogTrimmed, LogUnreachable
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_streams import MemoryStreams, SharedStreams
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_stream import new_stream_name
from aos.store.log.nats_streams import NatsStreams
from aos.store.log.world_streams import WorldStreams, new_base_name
from aos.values.digests import Hash, content_hash
from tests.cli.shell import run, start
from tests.host.cluster.owner_process import WORLD, Chance, OwnerProcess, begin, counting_draws
from tests.host.cluster.replicated import keys_folder, rows_of
from tests.memory_world import WORLD_KEY
from tests.nats_servers import PATIENT_S, Servers, asked

KEY = bytes(WORLD_KEY.verify_key)
NAMES = (f"world-{number}" for number in itertools.count())
EVENTS = 1000


@contextlib.contextmanager
def connected_to(address: NatsAddress, *, replicas: int | None = None) -> Iterator[WorldServers]:
    """Servers whose answers may take long on a busy machine."""
    with connected_servers(address, NatsAccess(), replicas=replicas) as connected:
        assert isinstance(connected.streams, NatsStreams)
        connected.streams._connection.answer_seconds = PATIENT_S
        yield connected


@pytest.fixture
def servers(server: Servers) -> Iterator[WorldServers]:
    address = NatsAddress.parse(f"{server.address}/any")
    with connected_to(address, replicas=1) as connected:
        yield connected


def node_file(server: Servers, name: str, node: str) -> ReplicaFile:
    return ReplicaFile(
        address=NatsAddress.parse(f"{server.address}/{name}"), stream="", node=node,
        unverified_durability=True,
    )  # fmt: skip


# Streams: both kinds behave in the same way


@pytest.fixture(params=["memory", "nats"])
def streams(request: pytest.FixtureRequest) -> WorldStreams:
    if request.param == "memory":
        return MemoryStreams(SharedStreams())
    connected: WorldServers = request.getfixturevalue("servers")
    return connected.streams


def test_streams_are_made_sealed_and_removed(streams: WorldStreams) -> None:
    """CL-131."""
    world = Hash(content_hash(str(time.time_ns()).encode()))
    log_name, base_name = new_stream_name(world), new_base_name(world)
    for name in (log_name, base_name, log_name):
        streams.make(name)
    log = streams.log(log_name)
    assert streams.part_bytes() >= 1000
    assert (streams.size_bytes(log_name), streams.first(log_name)) == (0, 1)
    log.append(parts_of(b"x" * 3000, 1000), 0)
    assert streams.size_bytes(log_name) >= 3000
    log.trim(3)
    assert streams.first(log_name) == 3
    with pytest.raises(LogTrimmed):
        list(log.read(0))

    [age] = streams.bases(world)
    assert age.name == base_name
    assert 0 <= age.idle_ns < ABANDONED_NS
    for _ in range(2):
        streams.seal(log_name)
    with pytest.raises(LogSealed):
        log.append(parts_of(b"y", 1000), 3)
    assert [message.position for message in streams.log(log_name).read(2)] == [3]
    for _ in range(2):
        streams.remove(base_name)
    assert streams.bases(world) == []
    with pytest.raises(Damage, match="missing"):
        streams.log(base_name)
    with pytest.raises(Damage, match="missing"):
        streams.size_bytes(base_name)
    streams.remove(log_name)


# A world with some thousand records


@pytest.fixture(scope="module")
def large(server: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnerProcess]:
    """A world with 2,000 records and a snapshot, under the name ``large``."""
    path = tmp_path_factory.mktemp("large")
    address = NatsAddress.parse(f"{server.address}/large")
    with (
        connected_to(address, replicas=1) as connected,
        LoggedStore.create(path / "owner") as store,
    ):
        stream = new_stream_name(WORLD)
        connected.streams.make(stream)
        world = begin(store, connected.streams.log(stream), stream)
        owner = OwnerProcess(world, store, Chance(counting_draws("large")))
        owner.start()
        assert isinstance(owner.apply(), Admitted)
        register(
            connected.worlds,
            WorldRegistration(name="large", world=WORLD, stream=stream).signed(WORLD_KEY),
        )
        for number in range(EVENTS):
            owner.tell(f"k{number % 50}", note=f"note {number}" * 20, submission=f"s{number}")
            owner.run()
            if number % 100 == 0:
                owner.commit()
            if number == EVENTS // 2:
                owner.snapshot()
        owner.write()
        yield owner
        world.thread.close()


def snapshot_root(store: LoggedStore) -> Hash:
    """The document of a snapshot of the world as it is now."""
    world = open_world(store, WORLD)
    try:
        kernel = world.kernel
        return world.thread.call(lambda: kernel.snapshot(content_hash).document)
    finally:
        world.thread.close()


def join(server: Servers, path: Path, name: str = "large", node: str = "b") -> None:
    replica = node_file(server, name, node)
    keys = keys_folder(path.parent / "keys")
    with connected_to(replica.address) as connected:
        join_world(path, connected, replica, keys=keys)


def check_equal(path: Path, owner: OwnerProcess) -> None:
    with LoggedStore.open(path / STORE) as store:
        assert rows_of(store) == rows_of(owner.store)
        assert store.place == owner.store.place
        kernel = owner.world.kernel
        document = owner.world.thread.call(lambda: kernel.snapshot(content_hash).document)
        assert snapshot_root(store) == document


def test_a_node_joins_a_world_of_some_thousand_records(
    server: Servers, servers: WorldServers, large: OwnerProcess, tmp_path: Path
) -> None:  # CL-130, CL-133, CL-150
    join(server, tmp_path / "early", node="early")
    check_equal(tmp_path / "early", large)

    made = make_base(servers, "large", large.store, WORLD_KEY)

    stream = registered(servers.worlds, "large", KEY).registration.stream
    assert servers.streams.first(stream) == made.base.end.position
    large.tell("k1", note="after the base")
    large.write()
    join(server, tmp_path / "late", node="late")
    check_equal(tmp_path / "late", large)


def test_streams_of_bases_that_others_have_changed_are_reported(
    server: Servers, servers: WorldServers, large: OwnerProcess, tmp_path: Path
) -> None:  # CL-132, CL-134
    streams = servers.streams
    spoilt: tuple[tuple[str, dict[str, object], str], ...] = (
        ("PURGE", {"seq": 2}, "trimmed"),
        ("PURGE", {}, "trimmed|not finished"),
        ("DELETE", {}, "missing"),
    )
    for operation, document, words in spoilt:
        base = make_base(servers, "large", large.store, WORLD_KEY).base
        request(server, f"STREAM.{operation}.{base.stream}", document)
        with pytest.raises(AosError, match=words):
            join(server, tmp_path / "node")
        assert not (tmp_path / "node" / WORLD_FILE).exists()
        again = make_base(servers, "large", large.store, WORLD_KEY)
        assert again.is_new
    # Something behind its end changes nothing.
    log = streams.log(again.base.stream)
    log.append(parts_of(b"garbage", 1000), log.tail())
    join(server, tmp_path / "node")
    check_equal(tmp_path / "node", large)


def request(server: Servers, name: str, document: dict[str, object]) -> None:
    with server.connected() as connection:
        asked(connection, name, document)


def test_a_node_that_runs_makes_a_base_when_it_needs_one(
    server: Servers, servers: WorldServers, tmp_path: Path
) -> None:  # CL-136
    name = next(NAMES)
    folder = init_world(tmp_path / "a")
    replicate(folder, servers, node_file(server, name, "a"))
    key = bytes(folder.world_key().verify_key)
    stream = registered(servers.worlds, name, key).registration.base
    assert stream is not None
    servers.streams.remove(stream.stream)
    lines: list[str] = []
    now_ns, needed = 0, [True, False]
    with (
        LoggedStore.open(folder.path / STORE),  # as its node has it
        BaseMaker(
            folder.path, lambda: needed.pop(0), report=lines.append, now_ns=lambda: now_ns
        ) as maker,
    ):
        until = time.monotonic() + 120
        while not lines and time.monotonic() < until:
            maker.turn()
            time.sleep(0.05)
        assert lines == ["a base has the world to record 1, and the log is trimmed to it"]
        maker.turn()
        assert needed == [False], "it looks once a minute"
        now_ns = 2 * LOOK_NS
        maker.turn()
        assert needed == []
    base = registered(servers.worlds, name, key).registration.base
    assert base is not None
    assert base != stream


def test_a_base_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []

    def unknown() -> bool:
        raise LogUnreachable("the servers do not answer")

    with BaseMaker(tmp_path, unknown, report=lines.append) as maker:
        maker.turn()
    assert lines == ["it is not known whether the world needs a base: the servers do not answer"]
    with BaseMaker(tmp_path, lambda: True, report=lines.append) as maker:
        until = time.monotonic() + 120
        while len(lines) < 2 and time.monotonic() < until:
            maker.turn()
            time.sleep(0.05)
    assert "no base of the world was made" in lines[1]
    assert "world.json" in lines[1]
    with BaseMaker(tmp_path, lambda: True) as maker:
        maker.turn()  # and its child ends with it


# Commands that are killed


def done(*words: str | Path) -> str:
    result = run(*words, timeout=240)
    assert result.code == 0, result.err
    return result.out


def killed_after(seconds: float, *words: str | Path) -> None:
    process = start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()


DELAYS = (0.6, 0.9)
"""Seconds after which a command is killed: while it starts, and in the middle."""


def repeated(*words: str | Path) -> str:
    """Kill a command twice, and run it to its end."""
    for seconds in DELAYS:
        killed_after(seconds, *words)
    return done(*words)


def test_commands_that_are_killed_are_finished_by_the_same_command(
    server: Servers, servers: WorldServers, large: OwnerProcess, tmp_path: Path
) -> None:  # CL-133, CL-152, CL-157, CL-159
    make_base(servers, "large", large.store, WORLD_KEY)
    url, path = f"{server.address}/large", tmp_path / "node"
    words = ("join", url, path, "--keys", keys_folder(tmp_path / "keys"), "--node", "killed",
             "--unverified-durability")  # fmt: skip
    for seconds in DELAYS:
        killed_after(seconds, *words)
        if (path / WORLD_FILE).exists():
            break
    else:
        done(*words)
    check_equal(path, large)
    large.tell("k1", note="more")
    large.write()
    repeated("cluster", "base", "--world", tmp_path / "node")

    embedded = tmp_path / "embedded"
    init_world(embedded)
    name = next(NAMES)
    address = f"{server.address}/{name}"
    output = repeated(
        "adopt", "--world", embedded, "--store", address, "--replicas", "1",
        "--unverified-durability",
    )  # fmt: skip
    assert "replicated" in output
    folder = open_folder(embedded)
    with pytest.raises(Refused, match="this world is replicated"):
        folder.open_store()
    for seconds in DELAYS:
        killed_after(seconds, "adopt", "--world", embedded, "--embedded")
    if find_replica(embedded) is not None:
        done("adopt", "--world", embedded, "--embedded")
    with folder.open_store() as store:
        assert store.head() is not None


# Worlds that move


def test_a_world_moves_to_the_servers_and_back(
    server: Servers, servers: WorldServers, tmp_path: Path
) -> None:  # CL-157 to CL-160, CL-165
    name = next(NAMES)
    folder = init_world(tmp_path / "a")
    replica = node_file(server, name, "a")
    moved = replicate(folder, servers, replica)
    with connected_to(replica.address) as connected:
        other = join_world(
            tmp_path / "b", connected, node_file(server, name, "b"), keys=folder.path / "keys"
        )
    other_file = replace(node_file(server, name, "b"), stream=moved.stream)
    other_copy = replace(node_file(server, name, "c"), stream=moved.stream)
    with connected_to(replica.address) as connected:
        third = join_world(
            tmp_path / "c", connected, node_file(server, name, "c"), keys=folder.path / "keys"
        )
    forget_node(third.folder, servers, other_copy)
    assert not (tmp_path / "c").exists()
    taken = take_out(other.folder, servers, other_file, bring=bring_to_folder)
    assert taken.is_new
    log = servers.streams.log(moved.stream)
    with pytest.raises(LogSealed):
        log.append(parts_of(b"late", 1000), log.tail())
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        take_out(folder, servers, replace(replica, stream=moved.stream), bring=bring_to_folder)
    assert replicate(open_folder(tmp_path / "b"), servers, node_file(server, name, "b")).is_new


def test_a_stream_that_was_deleted_is_restored(
    server: Servers, servers: WorldServers, tmp_path: Path
) -> None:  # CL-161
    name = next(NAMES)
    folder = init_world(tmp_path / "a")
    moved = replicate(folder, servers, node_file(server, name, "a"))
    request(server, f"STREAM.DELETE.{moved.stream}", {})
    replica = find_replica(folder.path)
    assert replica is not None

    restored = restore_log(folder, servers, replica)

    assert restored.is_new
    registration = registered(servers.worlds, name, bytes(folder.world_key().verify_key))
    assert registration.registration.stream == restored.stream != moved.stream


def test_three_servers_that_do_not_sync_get_no_world(three: Servers, tmp_path: Path) -> None:
    """CL-164. And with those that do, streams have three replicas."""
    folder = init_world(tmp_path / "a")
    replica = node_file(three, next(NAMES), "a")
    monitors = [server.monitor for server in three.servers]
    with connected_to(replica.address, replicas=3) as connected:
        check = durability_check(connected, monitors[:1], is_unverified=False)
        with pytest.raises(Refused, match="not known whether a server syncs"):
            replicate(folder, connected, replica, check=check)
        with folder.open_store():
            pass  # nothing has changed
        moved = replicate(
            folder, connected, replica,
            check=durability_check(connected, monitors, is_unverified=False),
        )  # fmt: skip
        streams = connected.streams
        assert isinstance(streams, NatsStreams)
        assert len(streams.log(moved.stream).state.replicas) == 3
        base = registered(
            connected.worlds, replica.address.name, bytes(folder.world_key().verify_key)
        ).registration.base
        assert base is not None
        assert len(streams.log(base.stream).state.replicas) == 3


def test_servers_without_worlds_are_told_from_those_that_lack_one(
    server: Servers, servers: WorldServers, tmp_path: Path
) -> None:
    assert servers.worlds.get("nothing") is None
    with pytest.raises(Refused, match="no world is registered under this name"):
        join(server, tmp_path / "node", name="nothing")
    with Servers(tmp_path / "empty") as empty:
        empty.start()
        connecting = connected_servers(NatsAddress.parse(f"{empty.address}/w"), NatsAccess())
        with pytest.raises(Refused, match="no world is registered at these servers"):
            connecting.__enter__()


def test_a_value_of_a_bucket_is_removed(servers: WorldServers) -> None:  # CL-165
    for bucket in (servers.beats, MemoryBucket(SharedBucket())):
        bucket.remove("not-there")
        bucket.create("there", b"x")
        bucket.remove("there")
        bucket.remove("there")
        assert bucket.get("there") is None
        assert "there" not in dict(bucket.entries())
        bucket.create("there", b"y")
        bucket.remove("there")
