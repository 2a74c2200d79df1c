"""``aos adopt --store`` and ``aos adopt --embedded`` on the folder of a group (spec/cli.md, C-174;
spec/cluster.md, CL-306 to CL-309)."""

from __future__ import annotations

from pathlib import Path

from aos.host.cluster.connecting import durability_check
from aos.host.cluster.replicating_group import (
    MovedGroup,
    replica_of_group,
    replicate_group,
    take_out_group,
)
from aos.host.folder.group import GroupFolder, open_group
from aos.host.folder.replica_file import ReplicaFile
from aos.node.brought_values import bring_to_folder
from aos.node.worlds.worlds_folder import WorldsFolder
from aos_cli.output import line, note, print_json
from aos_cli.servers import servers_of, stages


def replicate_group_at(
    world: Path, replica: ReplicaFile, *, replicas: int, creds: Path | None, as_json: bool
) -> None:
    """Make the shards of a group replicated worlds, and print how each continues. ``replica`` is as
    for ``replicate_group``.

    Raises:
        AosError: As ``replicate_group`` and ``servers_of``.
    """
    group = open_group(world)
    with (
        WorldsFolder(world).locked(),
        servers_of(replica, creds, replicas=replicas) as servers,
        stages() as show,
    ):
        check = durability_check(
            servers, replica.monitors, is_unverified=replica.unverified_durability
        )
        moved = replicate_group(group, servers, replica, check=check, progress=show, on_shard=_say)
    if _has_shown(group, moved, "replicated", as_json=as_json):
        line(f"next, on other machines: aos join {replica.address.text} DIR --keys FOLDER")


def move_group_out(world: Path, creds: Path | None, *, as_json: bool) -> None:
    """Take the shards of a group out of their servers, and print how each continues.

    Raises:
        AosError: As ``take_out_group`` and ``servers_of``.
    """
    group = open_group(world)
    replica = replica_of_group(group)
    with WorldsFolder(world).locked(), servers_of(replica, creds) as servers, stages() as show:
        moved = take_out_group(group, servers, bring=bring_to_folder, progress=show, on_shard=_say)
    if _has_shown(group, moved, "embedded", as_json=as_json):
        line("their streams stay at the servers, sealed; other nodes do not start")


def _say(shard: str) -> None:
    note(f"shard {shard}")


def _has_shown(group: GroupFolder, moved: MovedGroup, kind: str, *, as_json: bool) -> bool:
    """Print the shards. False if that was a JSON document, to which nothing is added."""
    rows = list(zip(group.names, moved.shards, strict=True))
    if as_json:
        shards = [
            {
                "shard": name,
                "stream": None if shard is None else shard.stream,
                "seq": None if shard is None else shard.seq,
                "new": shard is not None and shard.is_new,
            }
            for name, shard in rows
        ]
        print_json({"path": str(group.path), "kind": kind, "shards": shards})
        return False
    line(f"{kind}: {group.path}, all {group.shards} shards", style="bold")
    for name, shard in rows:
        if shard is None:
            line(f"  {name} was {kind} before")
        else:
            before = "" if shard.is_new else " as before"
            line(f"  {name} continues{before} from record {shard.seq:,}")
    return True
