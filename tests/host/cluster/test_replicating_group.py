"""A group goes to the servers and comes back (spec/cluster.md, CL-306 to CL-309): with servers in
memory, and by its commands on real ones."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from aos.errors import BadUsage, Refused, Unavailable
from aos.host.cluster import replicating, replicating_group
from aos.host.cluster.base import WorldServers
from aos.host.cluster.group_registration import (
    GroupRegistration,
    find_group_registration,
    register_group,
)
from aos.host.cluster.joining import join_world
from aos.host.cluster.registration import WorldRegistration, find_registration, register
from aos.host.cluster.replicating_group import (
    replica_of_group,
    replicate_group,
)
from aos.host.folder.adoption import settle
from aos.host.folder.folder import REPLICA_FILE, STORE, WORLD_FILE, is_replicated
from aos.host.folder.group import GroupFolder, open_group
from aos.host.folder.group_making import GroupPlan, init_group
from aos.node.brought_values import bring_to_folder
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.store.lock import WorldLock
from aos.store.log import patience
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_bucket import MemoryBucket
from tests.cli.shell import Result, here
from tests.cli.test_group_commands import write as write_manifest
from tests.host import puppet
from tests.host.cluster.replicated import Kill, Killed
from tests.host.cluster.test_replicated_group import monitors
from tests.host.cluster.test_replicating import (
    NAME,
    Servers,
    is_embedded,
    node_file,
    step_files,
    write,
)
from tests.nats_servers import Servers as NatsServers

take_out_group = partial(replicating_group.take_out_group, bring=bring_to_folder)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    monkeypatch.setattr(replicating, "SEALED_S", 0.0)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def group(tmp_path: Path) -> GroupFolder:
    """An embedded group."""
    return init_group(tmp_path / "group", GroupPlan(shards=2))


def copied(group: GroupFolder, path: Path) -> GroupFolder:
    """The group in another folder, where it may run."""
    shutil.copytree(group.path, path)
    for name in group.names:
        with LoggedStore.open(path / name / STORE) as store:
            settle(path / name / WORLD_FILE, store)
    return open_group(path)


def registered(servers: Servers, name: str) -> WorldRegistration:
    entry = find_registration(MemoryBucket(servers.bucket), name)
    assert entry is not None
    return entry.registration


def replicated(group: GroupFolder, servers: Servers) -> GroupFolder:
    replicate_group(group, servers.seen(), node_file())
    return group


def check_replicated(group: GroupFolder, servers: Servers) -> None:
    entry = find_group_registration(MemoryBucket(servers.bucket), NAME)
    assert entry is not None
    assert entry.worlds == group.worlds
    assert entry.is_of(group.shard(1).world_key().verify_key.encode())
    assert group.are_replicated()
    for index in range(group.shards):
        registration = registered(servers, f"{NAME}-00{index}")
        assert registration.world == group.worlds[index]
        assert not is_embedded(group.shard(index))


def check_embedded(group: GroupFolder, servers: Servers) -> None:
    assert not group.are_replicated()
    for index in range(group.shards):
        assert registered(servers, f"{NAME}-00{index}").taken_by is not None
        assert is_embedded(group.shard(index))


def is_mixed(group: GroupFolder) -> bool:
    """Whether only some shards are replicated, so that nothing runs the group (CL-308)."""
    kinds = {is_replicated(group.path / name) for name in group.names}
    if len(kinds) == 2:
        with pytest.raises(Unavailable, match="run the same command again"):
            group.are_replicated()
    return len(kinds) == 2


def check_killed(
    group: GroupFolder,
    servers: Servers,
    command: Callable[[GroupFolder, WorldServers], object],
    check: Callable[[GroupFolder, Servers], None],
) -> int:
    """Kill a command at every third of its steps, and check that the same command finishes it.
    Return how often some shards, and not all, had moved."""
    at, total, mixed = 0, 0, 0
    while at <= total:
        here, its_servers = copied(group, group.path.parent / f"at-{at}"), copy.deepcopy(servers)
        kill = Kill(at)
        with pytest.MonkeyPatch.context() as patch:
            step_files(patch, kill)
            with contextlib.suppress(Killed):
                command(here, its_servers.seen(kill))
        total = total if at else kill.count
        mixed += is_mixed(here)
        command(here, its_servers.seen())
        check(here, its_servers)
        shutil.rmtree(here.path)
        at += 3
    return mixed


def test_a_group_becomes_replicated_whenever_the_command_is_killed(
    group: GroupFolder, servers: Servers
) -> None:  # CL-306, CL-307, CL-308
    def command(here: GroupFolder, seen: WorldServers) -> object:
        return replicate_group(here, seen, node_file())

    assert check_killed(group, servers, command, check_replicated) > 3
    names: list[str] = []
    moved = replicate_group(group, servers.seen(), node_file(), on_shard=names.append)
    assert names == ["000", "001"]
    assert [shard is not None and shard.is_new for shard in moved.shards] == [True, True]
    write(group.shard(1), servers)
    again = replicate_group(group, servers.seen(), node_file())
    assert [shard is not None and shard.is_new for shard in again.shards] == [False, False]


def test_a_group_becomes_embedded_again_whenever_the_command_is_killed(
    group: GroupFolder, servers: Servers
) -> None:  # CL-308, CL-309
    replicated(group, servers)
    write(group.shard(0), servers)
    assert check_killed(group, servers, take_out_group, check_embedded) > 3

    moved = take_out_group(group, servers.seen())
    assert [shard is not None and shard.is_new for shard in moved.shards] == [True, True]
    assert take_out_group(group, servers.seen()).shards == (None, None)
    with pytest.raises(BadUsage, match="worlds of this group are embedded"):
        replica_of_group(group)
    # And to the servers again, under the same name, of which the registration was deleted.
    servers.bucket.rows.pop(NAME)
    check_replicated(replicated(group, servers), servers)
    assert replica_of_group(group).address.name == f"{NAME}-000"


def test_one_folder_takes_all_shards_out_of_the_servers(
    group: GroupFolder, servers: Servers, tmp_path: Path
) -> None:  # CL-309
    replicated(group, servers)
    other = tmp_path / "other"
    other.mkdir()
    for index in range(group.shards):
        shard = group.shard(index)
        replica = node_file("b", f"{NAME}-00{index}")
        join_world(other / f"00{index}", servers.seen(), replica, keys=shard.path / "keys")
    shutil.copy(group.path / "group.json", other / "group.json")
    take_out_group(group, servers.seen())
    with pytest.raises(Refused, match="embedded in the folder of one node"):
        take_out_group(open_group(other), servers.seen())
    check_embedded(group, servers)


def test_a_group_that_cannot_move_stays_as_it_is(
    group: GroupFolder, servers: Servers, tmp_path: Path
) -> None:  # CL-306
    key = group.shard(0).world_key()
    bucket = MemoryBucket(servers.bucket)

    def check(match: str, kind: type[Exception] = Refused, *, name: str = NAME) -> None:
        with pytest.raises(kind, match=match):
            replicate_group(group, servers.seen(), node_file(world=name))
        assert not group.are_replicated()
        assert servers.streams.streams == {}

    register(bucket, WorldRegistration(name="a", world=group.worlds[0], stream="AOS-1").signed(key))
    check("a world has this name", name="a")
    swapped = GroupRegistration(name="b", worlds=group.worlds[::-1]).signed(key)
    register_group(bucket, swapped)
    check("another group has this name", name="b")
    other = group.worlds[0]
    register(bucket, WorldRegistration(name="c-001", world=other, stream="AOS-1").signed(key))
    check("c-001: another world has this name", name="c")
    with WorldLock(group.shard_path(1)):
        check("lock|process", Unavailable)
    moved = group.path / "001"
    moved.rename(tmp_path / "away")
    check("a shard of the group is missing", Unavailable)
    (tmp_path / "away").rename(moved)

    kill = Kill(24)
    with pytest.raises(Killed):
        replicate_group(group, servers.seen(kill), node_file())
    with pytest.raises(Refused, match=f"expected .*/other-000, found .*/{NAME}-000"):
        replicate_group(group, servers.seen(), node_file(world="other"))
    check_replicated(replicated(group, servers), servers)


def test_the_commands_move_a_group_with_all_its_events(
    tmp_path: Path, three: NatsServers
) -> None:  # CL-305 to CL-309
    path, address = tmp_path / "moved", f"{three.address}/moved"
    store = ["adopt", "--store", address, "--replicas", "1", *monitors(three), "--world", str(path)]

    def sent(id: str, world: Path | str = path) -> Result:
        event = '{"key": "ada", "out": null, "trap": null}'
        return here("send", puppet.DO, event, "--id", id, "--world", world, "--timeout", "1s")

    assert here("init", path, "--shards", "2").code == 0
    assert here("apply", write_manifest(tmp_path / "manifest"), "--world", path).code == 0
    assert sent("one").code == 0
    embedded = here("adopt", "--embedded", "--world", path)
    assert (embedded.code, "of this group are embedded" in embedded.err) == (2, True), embedded
    with WorldsFolder(path).locked():
        refused = here(*store)
    assert (refused.code, open_group(path).are_replicated()) == (4, False), refused

    moved = here(*store, "--json")
    assert moved.code == 0, moved
    assert (moved.json["kind"], [row["new"] for row in moved.json["shards"]]) == (
        "replicated", [True, True],
    )  # fmt: skip
    again = here(*store)
    assert again.out.splitlines()[1:] == [
        *(f"  {row['shard']} continues as before from record {row['seq']}"
          for row in moved.json["shards"]),
        f"next, on other machines: aos join {address} DIR --keys FOLDER",
    ]  # fmt: skip
    away = sent("one", address)
    assert (away.code, "no node owns this world" in away.err) == (4, True), away

    (path / "001" / REPLICA_FILE).rename(tmp_path / "replica.json")
    for command in ("run", "node"):
        mixed = here(command, "--world", path)
        assert (mixed.code, "run the same command again" in mixed.err) == (4, True), mixed
    (tmp_path / "replica.json").rename(path / "001" / REPLICA_FILE)

    taken = here("adopt", "--embedded", "--world", path)
    assert (taken.code, "embedded: " in taken.out) == (0, True), taken
    assert "sent before" in sent("one").out
    gone = sent("two", address)
    assert (gone.code, "taken out of the servers" in gone.err) == (1, True), gone
