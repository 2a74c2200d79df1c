"""Make and join a group whose shards are replicated worlds (spec/cluster.md, CL-260 to CL-266).

    init    names are free ─▶ shard 0, keys ─▶ the other shards ─▶ registered ─▶ group.json
    join    registered, signed ─▶ each shard that is missing joins ─▶ group.json

A kill may come at any point: the same command continues. Shards that are finished stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aos.errors import Damage, Refused, Unavailable
from aos.host.cluster.base import WorldServers
from aos.host.cluster.group_registration import (
    GroupRegistration,
    find_group_registration,
    register_group,
    registered_group,
    shard_address,
)
from aos.host.cluster.joining import JoinedNode, Progress, join_world, no_progress
from aos.host.cluster.registration import find_registration
from aos.host.cluster.replica_making import ReplicaPlan, answered, init_replica
from aos.host.folder.folder import (
    GROUP_FILE,
    WORLD_FILE,
    WORLD_KEY,
    WorldFolder,
    open_folder,
    read_key,
)
from aos.host.folder.group import GroupFolder, find_group, shard_name
from aos.host.folder.group_making import GroupPlan, init_group
from aos.host.folder.replica_file import ReplicaFile
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.patience import patiently
from aos.store.plain_files import PlainFolder

_PART: Final = f"{GROUP_FILE}.part"


def init_replicated_group(
    path: Path, shards: int, plan: ReplicaPlan, access: NatsAccess
) -> GroupFolder:
    """Create a group of replicated worlds in an empty or new folder, or finish one whose creation
    was interrupted. The address of ``plan`` is that of the group.

    Raises:
        BadUsage: A number or a name is invalid, or the client of NATS is not installed.
        Refused: A name has another world or group, the folder has other content, or as
            ``init_replica``.
        Damage, Unavailable: As ``init_group`` and ``init_replica``. The same call continues.
    """
    plan.check()
    with NatsConnection(plan.address, access) as connection:
        worlds = answered(lambda: NatsBucket(connection, WORLDS, replicas=plan.replicas))
        group = answered(lambda: find_group_registration(worlds, plan.address.name))
        if group is not None:
            _check_own(path, group, plan)

        def make(shard_path: Path, index: int, first: WorldFolder | None) -> WorldFolder:
            shard_plan = replace(plan, address=shard_address(plan.address, index))
            if (shard_path / WORLD_FILE).exists():
                folder = open_folder(shard_path)
                name = shard_plan.address.name
                entry = answered(lambda: find_registration(worlds, name))
                if entry is not None and entry.registration.world == folder.world:
                    return folder
            return init_replica(shard_path, shard_plan, access, keys_of=first)

        def finish(folders: list[WorldFolder]) -> None:
            registration = GroupRegistration(
                name=plan.address.name, worlds=tuple(folder.world for folder in folders)
            ).signed(folders[0].world_key())
            answered(lambda: register_group(worlds, registration))

        group_plan = GroupPlan(
            shards=shards, operator=plan.operator, executors=plan.executors,
            store=plan.address.text,
        )  # fmt: skip
        return init_group(path, group_plan, make=make, finish=finish)


def _check_own(path: Path, group: GroupRegistration, plan: ReplicaPlan) -> None:
    """Check that a registered group is the one that was begun in this folder. Raises: Refused: It
    is another one."""
    first = path / shard_name(0)
    if (first / WORLD_FILE).exists() and open_folder(first).world == group.worlds[0]:
        return
    raise Refused(
        "another group has this name",
        location=plan.address.text,
        expected="a name that no world and no group has",
        actual=f"a group of {len(group.worlds)} shards",
        hint="use another name, or make another node of it: aos join URL DIR --keys FOLDER",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedGroup:
    """The folder of a group after joining. ``joined`` are the shards that this call has made."""

    group: GroupFolder
    joined: tuple[JoinedNode, ...]


def is_group_name(servers: WorldServers, name: str) -> bool:
    """Whether a group is registered under a name. Raises as ``patiently``, and Damage."""
    try:
        return patiently(lambda: find_group_registration(servers.worlds, name)) is not None
    except Refused:
        return False


def join_group(
    path: Path,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    keys: Path,
    progress: Progress = no_progress,
    on_shard: Callable[[str], None] = lambda _: None,
) -> JoinedGroup:
    """Make a node of each shard of the group that ``replica`` has the address of, in an empty or
    new folder, or in one in which the same call was interrupted. ``keys`` are those of any shard.
    ``on_shard`` gets the name of each shard before it joins.

    Raises:
        Refused: The folder has other content or is a group already, the key is not that of the
            group, or as ``join_world``.
        Damage: A shard that is there is another world; or as ``join_world``.
        Unavailable: The servers do not answer, or the folder cannot be written.
    """
    key = read_key(keys / WORLD_KEY)
    name = replica.address.name
    registration = patiently(
        lambda: registered_group(servers.worlds, name, key.verify_key.encode())
    )
    count = len(registration.worlds)
    _check_content(path, count)
    joined: list[JoinedNode] = []
    for index, world in enumerate(registration.worlds):
        shard_path = path / shard_name(index)
        if not (shard_path / WORLD_FILE).exists():
            on_shard(shard_name(index))
            shard_replica = replace(replica, address=shard_address(replica.address, index))
            joined.append(
                join_world(shard_path, servers, shard_replica, keys=keys, progress=progress)
            )
        folder = open_folder(shard_path)
        if folder.world != world:
            raise Damage(
                "a shard of this folder is not the world that the group has registered",
                location=str(shard_path),
                expected=world.hex(),
                actual=folder.world.hex(),
                hint="move the folder away, and run the same command again",
            )
    group = GroupFolder(
        path=path, worlds=registration.worlds, created=open_folder(path / shard_name(0)).created
    )
    _write(group)
    return JoinedGroup(group=group, joined=tuple(joined))


def _check_content(path: Path, count: int) -> None:
    """Make the folder, and check that it has nothing but shards. Raises: Refused, Unavailable."""
    if find_group(path) is not None:
        raise Refused(f"{path}: there is a group already; nothing was changed")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with PlainFolder.at_user_path(path) as folder:
            others = sorted(set(folder.names()) - {*map(shard_name, range(count)), _PART})
    except OSError as error:
        raise Unavailable(f"{path}: the folder cannot be made: {error.strerror}") from error
    if others:
        raise Refused(
            f"{path}: expected an empty or new folder, found {others[0]!r}; nothing was changed"
        )


def _write(group: GroupFolder) -> None:
    """Write ``group.json``. Raises: Unavailable."""
    text = json.dumps(group.document(), indent=2) + "\n"
    try:
        with PlainFolder.at_user_path(group.path) as folder:
            if folder.find(_PART) is not None:
                folder.remove(_PART)
            folder.put(_PART, text.encode(), mode=0o644)
            folder.rename(_PART, GROUP_FILE)
            folder.sync()
    except OSError as error:
        raise Unavailable(
            f"{group.path}: the group cannot be written: {error.strerror} (the same command "
            "continues)"
        ) from error
