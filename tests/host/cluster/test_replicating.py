"""Worlds go to the servers, come back, and get a new log (spec/cluster.md, CL-157 to CL-163)."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.errors import Damage, Refused
from aos.host.cluster import replicating
from aos.host.cluster.base import WorldServers, make_base
from aos.host.cluster.beating import Beats
from aos.host.cluster.following import EntryIntake, open_world
from aos.host.cluster.joining import JoinedNode, join_world, ready_node
from aos.host.cluster.kept_batches import KeptBatches
from aos.host.cluster.kept_positions import KeptPositions
from aos.host.cluster.known_end import KnownEnd
from aos.host.cluster.registration import WorldRegistration, find_registration, register
from aos.host.cluster.replicating import MovedWorld, replicate, restore_log
from aos.host.folder.adoption import origin_of, settle
from aos.host.folder.folder import (
    STORE,
    WORLD_FILE,
    WorldFolder,
    key_file,
    open_folder,
)
from aos.host.folder.making import init_world
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.node.batches.batch import BatchFiles
from aos.node.brought_values import bring_to_folder
from aos.node.webhooks import Position
from aos.store.log import patience
from aos.store.log.log import LogSealed
from aos.store.log.logged_store import LogEnd, LoggedStore
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.store.log.memory_log import MemoryLog
from aos.store.log.memory_streams import MemoryStreams, SharedStreams
from aos.store.log.nats_address import NatsAddress
from aos.values.digests import content_hash
from tests.host.cluster import owner_process
from tests.host.cluster.owner_process import Chance, OwnerProcess, counting_draws
from tests.host.cluster.replicated import Kill, Killed, SteppedBucket, rows_of
from tests.node.batches.test_shared_batches import JOB

NAME = "shop"

take_out = partial(replicating.take_out, bring=bring_to_folder)


@dataclass
class Servers:
    """Servers in memory."""

    streams: SharedStreams = field(default_factory=SharedStreams)
    bucket: SharedBucket = field(default_factory=SharedBucket)
    beats: SharedBucket = field(default_factory=SharedBucket)

    def seen(self, step: Callable[[str], None] = lambda _: None) -> WorldServers:
        return WorldServers(
            worlds=SteppedBucket(self.bucket, step),
            beats=MemoryBucket(self.beats),
            streams=MemoryStreams(self.streams, step=step),
        )

    def registration(self) -> WorldRegistration:
        entry = find_registration(MemoryBucket(self.bucket), NAME)
        assert entry is not None
        return entry.registration


def node_file(name: str = "a", world: str = NAME) -> ReplicaFile:
    address = NatsAddress.parse(f"nats://127.0.0.1/{world}")
    return ReplicaFile(address=address, stream="", node=name, unverified_durability=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    monkeypatch.setattr(replicating, "SEALED_S", 0.0)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def folder(tmp_path: Path) -> WorldFolder:
    """An embedded world."""
    init_world(tmp_path / "a")
    return open_folder(tmp_path / "a")


def head_seq(folder: WorldFolder) -> int:
    with LoggedStore.open(folder.path / STORE, readonly=True) as store:
        head = store.head()
        assert head is not None
        return head.seq


def write(folder: WorldFolder, servers: Servers, starts: int = 1) -> None:
    """Let a node own the world and write ``start`` records."""
    replica = find_replica(folder.path)
    assert replica is not None
    with LoggedStore.open(folder.path / STORE) as store:
        world = open_world(store, folder.world)
        try:
            log = MemoryLog(servers.streams.streams[replica.stream])
            store.connect(log, stream=replica.stream, tip=world.tip, key=folder.world_key())
            EntryIntake(world, store).advance()
            for _ in range(starts):
                current = EntryIntake(world, store).current()
                process = OwnerProcess(
                    current, store, Chance(counting_draws(f"{folder.path}{current.tip.seq}"))
                )
                process.start()
                process.run()
                signed_commit(process, folder.world_key())
        finally:
            world.thread.close()


def signed_commit(process: OwnerProcess, key: SigningKey) -> None:
    """Commit under the key of a world that ``init_world`` has made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner_process, "WORLD_KEY", key)
        process.commit()


def join(folder: WorldFolder, servers: Servers, name: str) -> JoinedNode:
    path = folder.path.parent / name
    return join_world(path, servers.seen(), node_file(name), keys=folder.path / "keys")


def is_embedded(folder: WorldFolder) -> bool:
    """Whether anything may write here without a log; then there is no file of a node's folder."""
    try:
        with folder.open_store():
            return True
    except Refused:
        return False


def test_an_embedded_world_goes_on_in_a_log_and_loses_nothing(
    folder: WorldFolder, servers: Servers
) -> None:  # CL-157
    with LoggedStore.open(folder.path / STORE, readonly=True) as store:
        before = rows_of(store)

    moved = replicate(folder, servers.seen(), node_file())

    registration = servers.registration()
    assert moved == MovedWorld(seq=head_seq(folder), stream=registration.stream, is_new=True)
    assert find_replica(folder.path) == replace(node_file(), stream=registration.stream)
    assert registration.base is not None
    assert registration.base.end.position == 0
    assert not is_embedded(folder)
    write(folder, servers)
    with LoggedStore.open(folder.path / STORE, readonly=True) as store:
        after = rows_of(store)
        assert after["frames"][:-1] == before["frames"]  # type: ignore[index]
        assert origin_of(folder.path / WORLD_FILE, store) is None
    joined = join(folder, servers, "b")
    assert joined.is_from_base
    with LoggedStore.open(joined.folder.path / STORE, readonly=True) as store:
        assert rows_of(store) == after
    assert not replicate(folder, servers.seen(), node_file()).is_new


def check_killed(
    path: Path,
    servers: Servers,
    command: Callable[[WorldFolder, WorldServers], MovedWorld],
    check: Callable[[WorldFolder, Servers], None],
    between: Callable[[WorldFolder], None] = lambda _: None,
) -> None:
    """Kill a command at each of its steps, also between the changes of files, and check that the
    same command finishes it."""
    kill = Kill()
    at, total = 0, 1
    while at <= total:
        here = path.parent / f"{path.name}-{at}"
        shutil.copytree(path, here)
        folder, its_servers = open_folder(here), copy.deepcopy(servers)
        with LoggedStore.open(here / STORE) as store:
            settle(here / WORLD_FILE, store)
        kill = Kill(at)
        with pytest.MonkeyPatch.context() as patch:
            step_files(patch, kill)
            try:
                command(folder, its_servers.seen(kill))
            except Killed:
                between(folder)
        if at == 0:
            total = kill.count
        else:
            assert kill.count >= at
        command(folder, its_servers.seen())
        check(folder, its_servers)
        shutil.rmtree(here)
        at += 1
    assert total > 10


def step_files(patch: pytest.MonkeyPatch, step: Callable[[str], None]) -> None:
    """Call ``step`` before and after each change of the folder, too."""
    put, remove = LoggedStore.meta_put, LoggedStore.meta_remove
    write_file = ReplicaFile.write

    def stepped(name: str, function: Callable[..., object]) -> Callable[..., None]:
        def call(*words: object, **more: object) -> None:
            step(f"before {name}")
            function(*words, **more)
            step(f"after {name}")

        return call

    patch.setattr(LoggedStore, "meta_put", stepped("put", put))
    patch.setattr(LoggedStore, "meta_remove", stepped("remove", remove))
    patch.setattr(ReplicaFile, "write", stepped("file", write_file))
    patch.setattr(replicating, "settle", stepped("settle", settle))
    patch.setattr(BatchFiles, "keep_state", stepped("batch", BatchFiles.keep_state))
    patch.setattr(Position, "save", stepped("position", Position.save))


def test_making_a_world_replicated_may_be_killed_at_any_point(
    folder: WorldFolder, servers: Servers
) -> None:  # CL-157, CL-158
    seq = head_seq(folder)

    def check(moved: WorldFolder, its_servers: Servers) -> None:
        registration = its_servers.registration()
        replica = find_replica(moved.path)
        assert replica is not None
        assert replica.stream == registration.stream
        assert registration.base is not None
        assert registration.base.end.seq == seq
        assert not is_embedded(moved)
        write(moved, its_servers)
        assert head_seq(moved) == seq + 1

    check_killed(folder.path, servers, lambda a, b: replicate(a, b, node_file()), check)


def test_a_world_comes_back_with_all_that_was_acknowledged(
    folder: WorldFolder, servers: Servers
) -> None:  # CL-159
    replicate(folder, servers.seen(), node_file())
    other = join(folder, servers, "b").folder
    write(other, servers, 3)
    seq = head_seq(other)

    moved = take_out(folder, servers.seen(), replica_at(folder))

    assert (moved.seq, moved.is_new) == (seq, True)
    assert head_seq(folder) == seq
    assert is_embedded(folder)
    assert find_replica(folder.path) is None
    assert servers.registration().taken_by is not None
    assert not take_out(folder, servers.seen(), node_file()).is_new
    with pytest.raises(LogSealed):
        write(other, servers)
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        take_out(other, servers.seen(), replica_at(other))
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        ready_node(other, servers.seen(), replica_at(other))
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        join(folder, servers, "c")
    with (
        LoggedStore.open(other.path / STORE, readonly=True) as store,
        pytest.raises(Refused, match="embedded in the folder of one node"),
    ):
        make_base(servers.seen(), NAME, store, other.world_key())
    assert not is_embedded(other)

    # And to the servers again, under the same name.
    again = replicate(folder, servers.seen(), node_file())
    assert again.is_new
    assert servers.registration().taken_by is None
    ready_node(other, servers.seen(), replica_at(other))
    write(other, servers)


def replica_at(folder: WorldFolder) -> ReplicaFile:
    replica = find_replica(folder.path)
    assert replica is not None
    return replica


def keep_values(folder: WorldFolder, servers: Servers) -> None:
    """Keep two batches and a position of a world in its bucket, as the front of its owner does."""
    key, stream = folder.world_key(), servers.registration().stream
    bucket = MemoryBucket(servers.bucket)
    kept = KeptBatches(bucket, folder.world, key)
    for id in ("one", "two"):
        assert kept.keep(id, 4, json.dumps(replace(JOB, id=id, next=2).to_row()).encode())
    positions = KeptPositions(bucket, folder.world, key, lambda: stream)
    assert positions.keep("webhook/orders", 5, 1, b"")
    earlier = KeptPositions(bucket, folder.world, key, lambda: "AOS-earlier")
    assert earlier.keep("webhook/earlier", 5, 1, b"")
    kept_keys = [name for name in servers.bucket.rows if name != NAME]
    assert len(kept_keys) == 4, kept_keys


def check_values(folder: WorldFolder) -> None:
    jobs, damaged = BatchFiles(folder).load()
    assert ([(job.id, job.next) for job in jobs], damaged) == ([("one", 2), ("two", 2)], [])
    assert Position(folder, "orders").load() == (5, 1)
    assert Position(folder, "earlier").load() is None, "it is of another stream"


def test_a_copy_of_a_folder_removes_nothing_of_a_world_that_is_back_at_the_servers(
    folder: WorldFolder, servers: Servers
) -> None:
    """CL-339: the copy was made of a folder whose command was killed at its end."""
    replicate(folder, servers.seen(), node_file())
    kill = Kill(1)

    def killed(*_: object) -> None:
        kill("remove")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicating, "_remove_replica", killed)
        with pytest.raises(Killed):
            take_out(folder, servers.seen(), replica_at(folder))
    assert is_embedded(folder)
    other = folder.path.parent / "copy"
    shutil.copytree(folder.path, other)
    assert not take_out(folder, servers.seen(), replica_at(folder)).is_new
    replicate(folder, servers.seen(), node_file())
    keep_values(folder, servers)

    assert not take_out(open_folder(other), servers.seen(), replica_at(open_folder(other))).is_new

    assert len(servers.bucket.rows) == 5


def test_taking_a_world_out_may_be_killed_at_any_point(
    folder: WorldFolder, servers: Servers
) -> None:  # CL-158, CL-159
    replicate(folder, servers.seen(), node_file())
    other = join(folder, servers, "b").folder
    write(other, servers)
    keep_values(other, servers)
    seq = head_seq(other)

    def check(taken: WorldFolder, its_servers: Servers) -> None:
        assert is_embedded(taken)
        assert find_replica(taken.path) is None
        assert head_seq(taken) == seq
        assert its_servers.registration().taken_by is not None
        check_values(taken)
        assert list(its_servers.bucket.rows) == [NAME]

    def command(taken: WorldFolder, seen: WorldServers) -> MovedWorld:
        return take_out(taken, seen, find_replica(taken.path) or node_file())

    def between(taken: WorldFolder) -> None:
        """It is embedded only once all is there."""
        if is_embedded(taken):
            assert head_seq(taken) == seq
            check_values(taken)

    check_killed(folder.path, servers, command, check, between)


def test_a_log_that_lost_records_is_brought_back_before_it_is_taken_out(
    lost: WorldFolder, servers: Servers
) -> None:  # CL-159
    other = open_folder(lost.path.parent / "b")
    with LoggedStore.open(other.path / STORE) as store:
        later = LogEnd(position=9, seq=head_seq(lost), frame=content_hash(b"later"))
        store.meta_put(f"log-known-end.{servers.registration().stream}", later.to_bytes())
    with pytest.raises(Damage, match="has lost what was acknowledged"):
        take_out(other, servers.seen(), replica_at(other))
    assert not is_embedded(other)
    assert restore_log(lost, servers.seen(), replica_at(lost)).is_new
    write(lost, servers)


def test_only_one_of_two_copies_takes_a_world_out(folder: WorldFolder, servers: Servers) -> None:
    replicate(folder, servers.seen(), node_file())
    other = folder.path.parent / "copy"
    shutil.copytree(folder.path, other)
    take_out(folder, servers.seen(), replica_at(folder))
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        take_out(open_folder(other), servers.seen(), replica_at(open_folder(other)))
    assert not is_embedded(open_folder(other))


def test_a_name_or_a_world_that_is_there_is_refused(
    folder: WorldFolder, servers: Servers, tmp_path: Path
) -> None:  # CL-160
    other = open_folder(init_world(tmp_path / "other").path)
    replicate(other, servers.seen(), node_file("o"))
    with pytest.raises(Refused, match="another world has this name"):
        replicate(folder, servers.seen(), node_file())
    assert is_embedded(folder)
    assert find_replica(folder.path) is None
    twin = tmp_path / "copy"
    shutil.copytree(folder.path, twin)
    replicate(folder, servers.seen(), node_file(world="mine"))
    with LoggedStore.open(twin / STORE) as store:
        settle(twin / WORLD_FILE, store)
    with pytest.raises(Refused, match="replicated already, and this folder is not one"):
        replicate(open_folder(twin), servers.seen(), node_file(world="mine"))
    assert is_embedded(open_folder(twin))


def test_a_world_that_is_not_adopted_or_has_another_key_stays_as_it_is(
    folder: WorldFolder, servers: Servers, tmp_path: Path
) -> None:  # CL-160
    twin = tmp_path / "copy"
    shutil.copytree(folder.path, twin)
    with pytest.raises(Refused, match="copy of a world's folder"):
        replicate(open_folder(twin), servers.seen(), node_file())
    (folder.path / "keys" / "world.key").write_bytes(key_file(SigningKey(b"x" * 32)))
    with pytest.raises(Refused, match="not this world's key"):
        replicate(folder, servers.seen(), node_file())
    assert servers.streams.streams == {}
    assert find_replica(folder.path) is None


def test_servers_that_do_not_sync_get_no_world(folder: WorldFolder, servers: Servers) -> None:
    def refuse(_: str) -> None:
        raise Refused("a server acknowledges what it has not synced")

    with pytest.raises(Refused, match="not synced"):
        replicate(folder, servers.seen(), node_file(), check=refuse)
    assert servers.streams.streams == {}
    assert is_embedded(folder)


# A log that has lost records


@pytest.fixture
def lost(folder: WorldFolder, servers: Servers) -> WorldFolder:
    """The folder with the most records, after the log has lost its last two."""
    replicate(folder, servers.seen(), node_file())
    join(folder, servers, "b")
    write(folder, servers, 3)
    stream = servers.streams.streams[servers.registration().stream]
    stream.lose_end(stream.tail - 2)
    return folder


def test_a_log_that_lost_records_is_replaced_by_one_that_has_them(
    lost: WorldFolder, servers: Servers
) -> None:  # CL-161
    seq, former = head_seq(lost), servers.registration()

    restored = restore_log(lost, servers.seen(), replica_at(lost))

    registration = servers.registration()
    assert restored == MovedWorld(seq=seq, stream=registration.stream, is_new=True)
    assert registration.stream != former.stream
    assert servers.streams.streams[former.stream].is_sealed
    assert replica_at(lost).stream == registration.stream
    write(lost, servers)
    other = open_folder(lost.path.parent / "b")
    ready_node(other, servers.seen(), replica_at(other))
    write(other, servers)
    assert head_seq(other) == seq + 2
    with pytest.raises(Refused, match="lost nothing"):
        restore_log(other, servers.seen(), replica_at(other))


def test_a_log_that_is_missing_is_replaced(lost: WorldFolder, servers: Servers) -> None:  # CL-161
    del servers.streams.streams[servers.registration().stream]
    assert restore_log(lost, servers.seen(), replica_at(lost)).is_new
    write(lost, servers)


def test_restoring_may_be_killed_at_any_point(lost: WorldFolder, servers: Servers) -> None:
    """CL-161."""
    seq = head_seq(lost)

    def check(restored: WorldFolder, its_servers: Servers) -> None:
        assert replica_at(restored).stream == its_servers.registration().stream
        write(restored, its_servers)
        assert head_seq(restored) == seq + 1

    def command(restored: WorldFolder, seen: WorldServers) -> MovedWorld:
        try:
            return restore_log(restored, seen, replica_at(restored))
        except Refused:  # it was done before
            return MovedWorld(seq=seq, stream="", is_new=False)

    check_killed(lost.path, servers, command, check)


@pytest.mark.parametrize("source", ["owner", "standby", "known", "base"])
def test_a_folder_that_lacks_what_another_node_had_is_refused(
    lost: WorldFolder, servers: Servers, source: str
) -> None:  # CL-162
    registration = servers.registration()
    seq = head_seq(lost)
    later = LogEnd(position=900, seq=seq + 5, frame=content_hash(b"later"))
    if source == "base":
        assert registration.base is not None
        changed = replace(registration, base=replace(registration.base, end=later))
        register(MemoryBucket(servers.bucket), changed.signed(lost.world_key()), 1)
    elif source == "known":
        with LoggedStore.open(lost.path / STORE) as store:
            store.meta_put(f"log-known-end.{registration.stream}", later.to_bytes())
    else:
        beats = Beats(
            MemoryBucket(servers.beats), stream=registration.stream, world=lost.world,
            key=lost.world_key(), node="gone", instance=b"i" * 16, inbox="inbox",
        )  # fmt: skip
        (beats.claim if source == "owner" else beats.stand_by)(later)

    with pytest.raises(Refused, match=f"record {seq + 5}, which .* had"):
        restore_log(lost, servers.seen(), replica_at(lost))
    assert servers.registration().stream == registration.stream
    assert not servers.streams.streams[registration.stream].is_sealed

    restored = restore_log(lost, servers.seen(), replica_at(lost), accepts_loss=True)

    assert restored.is_new
    # The known end belongs to the former stream, so it does not stop the node.
    with LoggedStore.open(lost.path / STORE) as store:
        assert KnownEnd(store, restored.stream).end is None
    write(lost, servers)


def test_a_log_that_lost_nothing_is_not_replaced(folder: WorldFolder, servers: Servers) -> None:
    """CL-162. A folder that is behind follows it, and nothing else changes."""
    replicate(folder, servers.seen(), node_file())
    other = join(folder, servers, "b").folder
    write(folder, servers, 2)
    before = servers.registration()
    with pytest.raises(Refused, match="lost nothing"):
        restore_log(other, servers.seen(), replica_at(other))
    assert servers.registration() == before
    write(folder, servers)


def test_two_folders_that_are_restored_make_one_log(lost: WorldFolder, servers: Servers) -> None:
    """CL-161."""
    other = open_folder(lost.path.parent / "b")
    beats = Beats(
        MemoryBucket(servers.beats), stream=servers.registration().stream, world=lost.world,
        key=lost.world_key(), node="a", instance=b"i" * 16, inbox="inbox",
    )  # fmt: skip
    with LoggedStore.open(lost.path / STORE, readonly=True) as store:
        head, place = store.head(), store.place
        assert head is not None
        assert place is not None
        beats.claim(LogEnd(position=place.position, seq=head.seq, frame=head.frame))
    done: list[str] = []

    def restore_other(request: str) -> None:
        if request.startswith("replace") and not done:
            done.append(request)
            restore_log(lost, servers.seen(), replica_at(lost))

    with pytest.raises(Refused, match="another folder has been restored meanwhile"):
        restore_log(other, servers.seen(restore_other), replica_at(other), accepts_loss=True)
    assert replica_at(lost).stream == servers.registration().stream
    ready_node(other, servers.seen(), replica_at(other))
    write(other, servers)


def test_a_base_of_the_new_log_is_later_than_that_of_the_old_one(
    lost: WorldFolder, servers: Servers
) -> None:
    restore_log(lost, servers.seen(), replica_at(lost))
    write(lost, servers)
    with LoggedStore.open(lost.path / STORE, readonly=True) as store:
        made = make_base(servers.seen(), NAME, store, lost.world_key())
    assert made.is_new
    assert made.base.end.position == 1


def test_a_damaged_registration_is_reported(lost: WorldFolder, servers: Servers) -> None:
    entry = servers.bucket.rows[NAME]
    servers.bucket.rows[NAME] = entry._replace(value=b"x")
    with pytest.raises(Damage, match="registration"):
        restore_log(lost, servers.seen(), replica_at(lost))
