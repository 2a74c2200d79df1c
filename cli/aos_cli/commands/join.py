"""``aos join URL DIR``: make another node of a replicated world (spec/cli.md, C-170)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Json, NewWorld, argument, option
from aos_cli.output import line, print_json
from aos_cli.servers import Creds, Monitors, NodeName, Unverified, replica_file, servers_of, stages

if TYPE_CHECKING:
    from aos.host.cluster.joining import JoinedNode
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
        joined = join_world(directory, servers, replica, keys=keys, progress=show)
    if json:
        print_json(_document(joined, replica))
    else:
        _show(joined, replica)


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
