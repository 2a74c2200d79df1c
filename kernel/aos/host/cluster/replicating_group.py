"""Make the shards of a group replicated worlds, and take them out of the servers again
(spec/cluster.md, CL-306 to CL-309).

    embedded ──▶ names are free ──▶ shard 0 ──▶ shard 1 ──▶ … ──▶ the group is registered
    embedded ◀── … ◀── shard 1 ◀── shard 0 ◀── replicated

Each shard moves as a world does (``replicating``). A kill may come at any point: the same command
continues. Until then, some shards are replicated and others are not, and nothing runs the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from aos.errors import BadUsage, Refused
from aos.host.cluster.base import WorldServers
from aos.host.cluster.group_registration import (
    GroupRegistration,
    find_group_registration,
    register_group,
    shard_address,
)
from aos.host.cluster.joining import Progress, check_node_name, no_progress
from aos.host.cluster.kept_values import BringValues
from aos.host.cluster.registration import find_registration
from aos.host.cluster.replicating import CheckStream, MovedWorld, replicate, take_out
from aos.host.folder.group import GroupFolder
from aos.host.folder.replica_file import ReplicaFile, find_replica
from aos.store.lock import world_locked
from aos.store.log.patience import patiently

OnShard = Callable[[str], None]
"""Called with the name of each shard before it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedGroup:
    """How each shard has moved, by index. None: it was embedded before."""

    shards: tuple[MovedWorld | None, ...]


def replicate_group(
    group: GroupFolder,
    servers: WorldServers,
    replica: ReplicaFile,
    *,
    check: CheckStream = lambda _: None,
    progress: Progress = no_progress,
    on_shard: OnShard = lambda _: None,
) -> MovedGroup:
    """Make each shard of a group a replicated world, and register the group. ``replica`` describes
    the node; its address is that of the group.

    Raises:
        Refused: A name has another world or group, the shards go to another address already, or as
            ``replicate``. Before the first shard, nothing has changed.
        Damage: As ``GroupFolder.shard`` and ``replicate``.
        Unavailable: A process runs a shard, a shard is missing, or the servers do not answer.
            Repeat it.
    """
    check_node_name(replica.node)
    _check_stopped(group)
    replicas = [
        replace(replica, address=shard_address(replica.address, index))
        for index in range(group.shards)
    ]
    _check_addresses(group, replicas)
    _check_names(group, servers, replica, replicas)
    moved: list[MovedWorld] = []
    for index, shard_replica in enumerate(replicas):
        on_shard(group.names[index])
        moved.append(
            replicate(group.shard(index), servers, shard_replica, check=check, progress=progress)
        )
    registration = GroupRegistration(name=replica.address.name, worlds=group.worlds).signed(
        group.shard(0).world_key()
    )
    patiently(lambda: register_group(servers.worlds, registration))
    return MovedGroup(shards=tuple(moved))


def take_out_group(
    group: GroupFolder,
    servers: WorldServers,
    *,
    bring: BringValues,
    progress: Progress = no_progress,
    on_shard: OnShard = lambda _: None,
) -> MovedGroup:
    """Take each shard of a group out of the servers, in order: all are embedded in this folder
    then. The registration of the group stays, so that no other group gets its name. ``bring`` is as
    for ``take_out``.

    Another folder that does the same is refused at shard 0, so one folder gets all of them.

    Raises:
        Refused, Damage, Unavailable: As ``take_out`` and ``GroupFolder.shard``. Shards before that
            one are embedded; repeat it.
    """
    _check_stopped(group)
    moved: list[MovedWorld | None] = []
    for index, name in enumerate(group.names):
        folder = group.shard(index)
        replica = find_replica(folder.path)
        if replica is None:
            moved.append(None)
            continue
        on_shard(name)
        moved.append(take_out(folder, servers, replica, bring=bring, progress=progress))
    return MovedGroup(shards=tuple(moved))


def replica_of_group(group: GroupFolder) -> ReplicaFile:
    """The ``replica.json`` of one of the shards.

    Raises:
        BadUsage: All are embedded.
        AosError: As ``find_replica``.
    """
    for index in range(group.shards):
        replica = find_replica(group.shard_path(index))
        if replica is not None:
            return replica
    raise BadUsage(
        "the worlds of this group are embedded",
        location=str(group.path),
        expected="the folder of a group of replicated worlds",
        hint="make them replicated: aos adopt --store URL",
    )


def _check_stopped(group: GroupFolder) -> None:
    """Check that all shards are there, and that no process runs one of them, before the first one
    changes. Raises: Unavailable, Damage."""
    for folder in group.folders():
        with world_locked(folder.path):
            pass


def _check_addresses(group: GroupFolder, replicas: list[ReplicaFile]) -> None:
    """Raise Refused if a command that was interrupted moves the shards to another name."""
    for index, shard_replica in enumerate(replicas):
        begun = find_replica(group.shard_path(index))
        if begun is not None and begun.address.name != shard_replica.address.name:
            raise Refused(
                "this shard has another address already",
                location=str(group.shard_path(index)),
                expected=shard_replica.address.text,
                actual=begun.address.text,
                hint="name that address without the number of the shard; or take the shards out of "
                "those servers: aos adopt --embedded",
            )


def _check_names(
    group: GroupFolder, servers: WorldServers, replica: ReplicaFile, replicas: list[ReplicaFile]
) -> None:
    """Raise Refused if the name of the group, or of a shard, has something else."""
    name = replica.address.name
    registered = patiently(lambda: find_group_registration(servers.worlds, name))
    if registered is not None and registered.worlds != group.worlds:
        raise Refused("another group has this name", location=name, hint="use another name")
    for index, shard_replica in enumerate(replicas):
        shard = shard_replica.address.name
        entry = patiently(partial(find_registration, servers.worlds, shard))
        if entry is not None and entry.registration.world != group.worlds[index]:
            raise Refused("another world has this name", location=shard, hint="use another name")
