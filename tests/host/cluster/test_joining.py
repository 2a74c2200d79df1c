"""A node joins from the newest base and the log (spec/cluster.md, CL-150 to CL-156)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage, Refused
from aos.host.cluster import joining
from aos.host.cluster.base import make_base, write_stream
from aos.host.cluster.beating import Beats
from aos.host.cluster.following import EntryIntake, NeedsBase, open_world
from aos.host.cluster.joining import NEW_STORE, join_again, needs_join, ready_node
from aos.host.cluster.known_end import KnownEnd
from aos.host.cluster.registration import BaseRef
from aos.host.folder.folder import (
    REPLICA_FILE,
    STORE,
    UNFINISHED_FILE,
    WORLD_FILE,
    WorldFolder,
    key_file,
    open_folder,
)
from aos.host.folder.reader import open_reader
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.store.log import base_stream, patience
from aos.store.log.log import LogTrimmed
from aos.store.log.logged_store import LoggedStore, LogPlace
from aos.store.log.memory_bucket import MemoryBucket
from aos.store.log.memory_log import MemoryLog, SharedStream
from aos.store.log.nats_address import NatsAddress
from aos.store.plain_files import PlainFolder
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.host.cluster.replicated import (
    NAME,
    STREAM,
    Kill,
    Killed,
    Replicated,
    keys_folder,
    replicated,
    rows_of,
)
from tests.memory_world import OPERATOR_KEY, WORLD_KEY


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicated]:
    monkeypatch.setattr(base_stream, "GROUP_BYTES", 4000)
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    with replicated(tmp_path) as world:
        yield world


def based(rig: Replicated) -> BaseRef:
    return make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY).base


def check_node(rig: Replicated, path: Path) -> None:
    """Check that a folder is a whole one of a node, with all that the owner has."""
    folder = open_folder(path)
    assert folder.world == WORLD
    assert bytes(folder.world_key()) == bytes(WORLD_KEY)
    replica = find_replica(path)
    assert replica is not None
    assert (replica.node, replica.stream) == (path.name, rig.registration().stream)
    names = {entry.name for entry in path.iterdir()}
    assert not names & {UNFINISHED_FILE, NEW_STORE}
    with LoggedStore.open(path / STORE, readonly=True) as store:
        assert rows_of(store) == rows_of(rig.owner.store)
        assert store.place == rig.owner.store.place
    with open_reader(path) as reader:
        assert reader.head() == rig.owner.store.head()


def test_a_node_joins_from_the_genesis_or_from_a_base(rig: Replicated) -> None:
    joined = rig.join("first")  # CL-150
    assert (joined.is_from_base, joined.keys) == (False, ("world.key", "operator.key"))
    check_node(rig, rig.path / "first")
    based(rig)
    rig.events("more", "and more")
    joined = rig.join("second")
    assert joined.is_from_base
    assert joined.end == rig.owner.store.end
    check_node(rig, rig.path / "second")


def test_a_join_that_is_killed_at_any_point_is_finished_by_the_same_call(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-152
    based(rig)
    rig.events("more")
    kill = Kill()
    rig.join("whole", kill)
    assert kill.count > 5
    # As after a kill, nothing is tidied up.
    monkeypatch.setattr("aos.host.folder.making._take_away", lambda _: None)
    for at in range(1, kill.count + 1):
        path = rig.path / "node"
        with pytest.raises(Killed):
            rig.join("node", Kill(at))
        assert not (path / WORLD_FILE).exists()
        rig.join("node")
        check_node(rig, path)
        shutil.rmtree(path)


def test_a_kill_between_the_last_files_is_finished_too(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aos.host.folder.making._take_away", lambda _: None)
    for function in ("copy_keys", "finish", "keys_to_copy"):
        with monkeypatch.context() as patch:

            def killed(*_: object) -> None:
                raise Killed

            patch.setattr(joining, function, killed)
            with pytest.raises(Killed):
                rig.join("node")
        rig.join("node")
        check_node(rig, rig.path / "node")
        shutil.rmtree(rig.path / "node")


def test_a_base_that_is_replaced_while_it_is_read_is_left_for_the_newer_one(
    rig: Replicated,
) -> None:  # CL-153
    first = based(rig)
    rig.events("more")
    replaced: list[str] = []

    def replace_base(request: str) -> None:
        if request == f"open {first.stream}" and not replaced:
            replaced.append(request)
            based(rig)

    rig.join("node", replace_base)

    assert replaced
    check_node(rig, rig.path / "node")


def test_wrong_keys_and_names_are_refused_and_nothing_is_left(rig: Replicated) -> None:
    """CL-150, CL-151."""
    other = SigningKey(b"o" * 32)
    replica = node_file("node")

    def check(words: str, kind: type[Exception], keys: Path, replica: ReplicaFile) -> None:
        with pytest.raises(kind, match=words):
            joining.join_world(rig.path / "node", rig.servers(), replica, keys=keys)
        assert not (rig.path / "node" / STORE).exists()
        assert not (rig.path / "node" / WORLD_FILE).exists()

    check("not a name of a node", BadUsage, rig.keys, replace(replica, node="a b"))
    check("no world is registered", Refused, rig.keys, node_file("node", "nats://h/other"))
    check("the key cannot be read", BadUsage, rig.path / "nothing", replica)
    wrong = keys_folder(rig.path / "wrong")
    (wrong / "operator.key").write_bytes(key_file(other))
    check("this key is not this world's", Refused, wrong, replica)
    (wrong / "operator.key").write_bytes(key_file(OPERATOR_KEY))
    (wrong / "world.key").write_bytes(key_file(other))
    check("not signed by the key of this world", Refused, wrong, replica)
    (wrong / "world.key").chmod(0o644)
    check("others may read this secret key", Refused, wrong, replica)


def test_the_key_of_an_executor_that_no_manifest_names_is_taken(rig: Replicated) -> None:
    executors = rig.keys / "executors"
    executors.mkdir()
    key = SigningKey(b"e" * 32)
    (executors / "bank.key").write_bytes(key_file(key))
    (executors / "bank.key").chmod(0o600)
    joined = rig.join("node")
    assert dict(open_folder(rig.path / "node").executors) == {"bank": bytes(key.verify_key)}
    assert joined.folder.key("executors/bank.key") == key


def test_a_folder_with_something_in_it_is_refused(rig: Replicated) -> None:
    rig.join("node")
    with pytest.raises(Refused, match="there is a world already"):
        rig.join("node")
    (rig.path / "full").mkdir()
    (rig.path / "full" / "letter").write_text("dear")
    with pytest.raises(Refused, match="empty"):
        rig.join("full")


def test_the_name_of_a_node_that_runs_is_refused(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-151
    beats = Beats(
        MemoryBucket(rig.beats), stream=STREAM, world=WORLD, key=WORLD_KEY, node="taken",
        instance=b"i" * 16, inbox="inbox",
    )  # fmt: skip
    end = rig.owner.store.end
    for write in (beats.stand_by, beats.claim):
        write(end)
        monkeypatch.setattr(time, "sleep", lambda _, write=write: write(end))
        with pytest.raises(Refused, match="another node of this world has this name"):
            rig.join("taken")
    monkeypatch.setattr(time, "sleep", lambda _: None)
    rig.join("taken")


def node_file(name: str, address: str = f"nats://127.0.0.1/{NAME}") -> ReplicaFile:
    return ReplicaFile(address=NatsAddress.parse(address), stream=STREAM, node=name)


def test_a_base_of_another_world_or_place_is_damage(rig: Replicated) -> None:  # CL-150
    servers = rig.servers()
    base = write_stream(servers.streams, rig.owner.store, WORLD_KEY)
    rig.events("more")
    for wrong in (
        replace(base.end, position=base.end.position + 1),
        replace(base.end, seq=base.end.seq + 1),
        replace(base.end, frame=content_hash(b"other")),
    ):
        registration = replace(rig.registration(), base=replace(base, end=wrong))
        signed = registration.signed(WORLD_KEY).to_bytes()
        rig.bucket.rows[NAME] = rig.bucket.rows[NAME]._replace(value=signed)
        with pytest.raises(Damage, match="not the one that the registration names"):
            rig.join("node")
        assert not (rig.path / "node" / STORE).exists()
    rig.streams.streams[base.stream].messages.pop()
    with pytest.raises(Exception, match="not finished"):
        rig.join("node")


# A node that joins again


@pytest.fixture
def behind(rig: Replicated) -> WorldFolder:
    """The folder of a node whose next message was trimmed."""
    folder = rig.join("node").folder
    rig.events("more", "and more")
    based(rig)
    rig.events("newest")
    return folder


def advance(rig: Replicated, folder: WorldFolder) -> None:
    """Follow the log with a node's store."""
    with LoggedStore.open(folder.path / STORE) as store:
        world = open_world(store, WORLD)
        try:
            log = MemoryLog(rig.log)
            store.connect(log, stream=STREAM, tip=world.tip, key=WORLD_KEY)
            EntryIntake(world, store).advance()
        finally:
            world.thread.close()


def test_a_node_behind_the_trim_joins_again_and_keeps_its_name_and_keys(
    rig: Replicated, behind: WorldFolder
) -> None:  # CL-154
    with pytest.raises(LogTrimmed) as trimmed:
        advance(rig, behind)
    assert needs_join(trimmed.value)
    assert needs_join(NeedsBase("a value is missing"))
    assert not needs_join(Damage("another history"))
    keys = sorted(path.name for path in (behind.path / "keys").iterdir())
    replica = node_file("node")

    assert join_again(behind, rig.servers(), replica) == replica

    check_node(rig, behind.path)
    assert sorted(path.name for path in (behind.path / "keys").iterdir()) == keys
    advance(rig, behind)


def test_joining_again_may_be_killed_at_any_point(
    rig: Replicated, behind: WorldFolder, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-155
    kill, replica = Kill(), node_file("node")
    with open_reader(behind.path) as reader:
        old_head = reader.head()
    copy = rig.path / "copy"
    shutil.copytree(behind.path, copy)
    join_again(open_folder(copy), rig.servers(kill), replica)
    # As after a kill, nothing is tidied up.
    remove, removals = joining._remove_store, list[int]()

    def remove_once(folder: WorldFolder) -> None:
        if not removals:
            removals.append(1)
            remove(folder)

    for at in range(1, kill.count + 1):
        removals.clear()
        with monkeypatch.context() as patch:
            patch.setattr(joining, "_remove_store", remove_once)
            with pytest.raises(Killed):
                join_again(behind, rig.servers(Kill(at)), replica)
        with open_reader(behind.path) as reader:
            assert reader.head() == old_head
    ready = ready_node(behind, rig.servers(), replica)
    assert ready == replica
    assert not (behind.path / NEW_STORE).exists()
    join_again(behind, rig.servers(), replica)
    check_node(rig, behind.path)


def test_an_exchange_that_was_cut_short_is_mended(
    rig: Replicated, behind: WorldFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system without an exchange of names in one step."""
    replica = node_file("node")
    monkeypatch.setattr("aos.store.plain_files._exchanged", lambda *_: False)
    join_again(behind, rig.servers(), replica)
    check_node(rig, behind.path)
    rig.events("again")
    with PlainFolder.at(behind.path) as folder:
        folder.rename(STORE, f"{STORE}.former")
    ready_node(behind, rig.servers(), replica)
    advance(rig, behind)
    check_node(rig, behind.path)


def test_a_node_with_another_or_a_longer_journal_keeps_it(
    rig: Replicated, behind: WorldFolder
) -> None:  # CL-156
    """The servers may have lost what it has."""
    replica = node_file("node")
    owner = open_folder_of_owner(rig)
    registration = rig.registration()
    assert registration.base is not None
    rig.log.lose_end(registration.base.end.position)
    with LoggedStore.open(owner.path / STORE, readonly=True) as store:
        before = rows_of(store)
    with pytest.raises(Damage, match="another journal than this folder"):
        join_again(owner, rig.servers(), replica)
    with LoggedStore.open(owner.path / STORE, readonly=True) as store:
        assert rows_of(store) == before
    assert not (owner.path / NEW_STORE).exists()


def open_folder_of_owner(rig: Replicated) -> WorldFolder:
    """A copy of the owner's store in the folder of a node."""
    folder = rig.path / "node"
    rig.owner.store.close()
    shutil.rmtree(folder / STORE)
    shutil.copytree(rig.path / "owner", folder / STORE)
    return open_folder(folder)


def test_a_node_still_knows_an_end_that_others_had(rig: Replicated, behind: WorldFolder) -> None:
    end = replace(rig.owner.store.end, position=10_000, seq=500)  # CL-156
    with LoggedStore.open(behind.path / STORE) as store:
        store.meta_put(f"log-known-end.{STREAM}", end.to_bytes())
    join_again(behind, rig.servers(), node_file("node"))
    with LoggedStore.open(behind.path / STORE) as store:
        assert KnownEnd(store, STREAM).end == end


def test_a_folder_of_an_earlier_log_joins_again_before_it_starts(rig: Replicated) -> None:
    """CL-155. The world was restored, and has another stream."""
    folder = rig.join("node").folder
    based(rig)
    servers = rig.servers()
    new = f"AOS-{WORLD.hex()[:16]}-2"
    servers.streams.make(new)
    place = LogPlace(stream=new)
    base = write_stream(servers.streams, rig.owner.store, WORLD_KEY, place=place)
    registration = replace(rig.registration(), stream=new, base=base).signed(WORLD_KEY)
    rig.bucket.rows[NAME] = rig.bucket.rows[NAME]._replace(value=registration.to_bytes())

    replica = ready_node(folder, servers, node_file("node"))

    assert replica.stream == new
    assert find_replica(folder.path) == replica
    with LoggedStore.open(folder.path / STORE, readonly=True) as store:
        assert store.place == place
        assert rows_of(store) == rows_of(rig.owner.store)
    (folder.path / REPLICA_FILE).unlink()
    assert ready_node(folder, servers, node_file("node")) == replica
    assert find_replica(folder.path) == replica


def test_a_log_without_a_record_makes_no_node(rig: Replicated) -> None:
    rig.streams.streams[STREAM] = SharedStream()
    with pytest.raises(Refused, match="no record yet"):
        rig.join("node")
