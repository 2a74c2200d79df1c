"""``aos join URL DIR``: make another node of a replicated world (spec/cli.md, C-170)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Json, NewWorld, argument, option
from aos_cli.output import line, note, print_json
from aos_cli.servers import Creds, Monitors, NodeName, Unverified, replica_file, servers_of, stages

if TYPE_CHECKING:
    from aos.host.cluster.joining import JoinedNode
    from aos.host.cluster.replicated_group import JoinedGroup
    from aos.host.folder.replica_file import ReplicaFile


def join(
    url: Annotated[str, argument("URL", "Address of the world: nats://HOST,HOST,HOST/NAME.")],
    directory: NewWorld,
    *,
    keys: Annotated[
        Path,
        option(
            "FOLDER", "Copy world.key, operator.key and executors/NAME.key from this folder, as "
            "another node has it. Keys never travel over the servers.",
        ),
    ],
    node: NodeName = None,
    creds: Creds = None,
    monitor: Monitors = None,
    unverified_durability: Unverified = False,
    json: Json = False,
) -> None:  # fmt: skip
    from aos.host.cluster.joining import join_world  # noqa: PLC0415  # replicated worlds alone

    replica = replica_file(url, node=node, monitors=monitor, is_unverified=unverified_durability)
    with servers_of(replica, creds) as servers, stages() as show:
        from aos.host.cluster.replicated_group import is_group_name, join_group  # noqa: PLC0415

        if is_group_name(servers, replica.address.name):
            joined_group = join_group(
                directory, servers, replica, keys=keys, progress=show, on_shard=_note_shard
            )
            _show_group(joined_group, replica, as_json=json)
            return
        joined = join_world(directory, servers, replica, keys=keys, progress=show)
    if json:
        print_json(_document(joined, replica))
    else:
        _show(joined, replica)


def _note_shard(name: str) -> None:
    note(f"shard {name}")


def _show_group(joined: JoinedGroup, replica: ReplicaFile, *, as_json: bool) -> None:
    group = joined.group
    if as_json:
        print_json({
            "path": str(group.path), "node": replica.node,
            "shards": [
                {"shard": name, "world": hash_text(world)}
                for name, world in zip(group.names, group.worlds, strict=True)
            ],
        })  # fmt: skip
        return
    line(f"joined: {group.path} has the {group.shards} shards of the group", style="bold")
    for name, world in zip(group.names, group.worlds, strict=True):
        line(f"  {name}  {hash_text(world)}")
    line(f"  node {replica.node}")
    line(f"next: aos run --world {shell_word(group.path)}")


def _document(joined: JoinedNode, replica: ReplicaFile) -> dict[str, object]:
    return {
        "world": hash_text(joined.folder.world),
        "path": str(joined.folder.path),
        "node": replica.node,
        "seq": joined.end.seq,
        "position": joined.end.position,
        "from_base": joined.is_from_base,
        "keys": list(joined.keys),
    }


def _show(joined: JoinedNode, replica: ReplicaFile) -> None:
    path = joined.folder.path
    source = "its newest base and its log" if joined.is_from_base else "its log"
    line(f"joined: {path} has the world to record {joined.end.seq:,}, from {source}", style="bold")
    line(f"  {hash_text(joined.folder.world)}")
    line(f"  node {replica.node}")
    for name in joined.keys:
        line(f"  {path}/keys/{name} copied")
    line(f"next: aos run --world {shell_word(path)}")
