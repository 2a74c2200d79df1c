"""``aos adopt``: allow a world to run in its folder (spec/cli.md, C-44, C-174)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.errors import BadUsage
from aos.host.folder.folder import is_group
from aos.host.transfer.adopting import Adopted, adopt_world
from aos.node.batches.batch import stop_batches
from aos.node.leases.table import clear_table
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World, flag, number, option
from aos_cli.output import line, print_json, progress
from aos_cli.servers import (
    Creds,
    Monitors,
    NodeName,
    Unverified,
    replica_file,
    servers_of,
    stages,
)

if TYPE_CHECKING:
    from aos.host.cluster.replicating import MovedWorld
    from aos.host.folder.replica_file import ReplicaFile


def adopt(
    *,
    keys: Annotated[
        Path | None,
        option("FOLDER", "Copy world.key, operator.key and executors/NAME.key from this folder."),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "URL",
            "Make an embedded world replicated: nats://HOST,HOST,HOST/NAME. This folder becomes "
            "its first node.",
        ),
    ] = None,
    embedded: Annotated[
        bool,
        flag("--embedded", "Take a replicated world out of its servers, into this folder."),
    ] = False,
    replicas: Annotated[
        int, option("N", "Number of servers that have the log, 1 or 3.", parser=number)
    ] = 3,
    node: NodeName = None,
    creds: Creds = None,
    monitor: Monitors = None,
    unverified_durability: Unverified = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if store is None and (node or monitor or unverified_durability):
        raise BadUsage("--node, --monitor, --unverified-durability: expected --store URL with them")
    if store is not None or embedded:
        if keys is not None or (store is not None and embedded):
            raise BadUsage("expected one of --keys, --store and --embedded")
        replica = None
        if store is not None:
            replica = replica_file(
                store, node=node, monitors=monitor, is_unverified=unverified_durability
            )
        if is_group(world):
            from aos_cli.adopted_group import move_group_out, replicate_group_at  # noqa: PLC0415  # few worlds

            if replica is None:
                move_group_out(world, creds, as_json=json)
            else:
                replicate_group_at(world, replica, replicas=replicas, creds=creds, as_json=json)
            return
        if replica is None:
            moved = _take_out(world, creds)
        else:
            moved = _replicate(world, replica, replicas=replicas, creds=creds)
        _show_moved(world, moved, replica, as_json=json)
        return
    with progress("reading the journal") as advance:
        adopted = adopt_world(world, keys=keys, progress=advance)
    if adopted.origin is not None:
        clear_table(adopted.folder.path)  # its leases are those of another folder
        stop_batches(adopted.folder, time.time_ns())
    if json:
        print_json(_document(adopted))
    else:
        _show(adopted)


def _replicate(
    world: Path, replica: ReplicaFile, *, replicas: int, creds: Path | None
) -> MovedWorld:
    from aos.host.cluster.connecting import durability_check  # noqa: PLC0415  # few worlds
    from aos.host.cluster.replicating import replicate  # noqa: PLC0415
    from aos.host.folder.folder import open_folder  # noqa: PLC0415

    folder = open_folder(world)
    with servers_of(replica, creds, replicas=replicas) as servers, stages() as show:
        check = durability_check(
            servers, replica.monitors, is_unverified=replica.unverified_durability
        )
        return replicate(folder, servers, replica, check=check, progress=show)


def _take_out(world: Path, creds: Path | None) -> MovedWorld:
    from aos.host.cluster.replicating import take_out  # noqa: PLC0415  # few worlds
    from aos.node.brought_values import bring_to_folder  # noqa: PLC0415
    from aos_cli.servers import node_folder  # noqa: PLC0415

    folder, replica = node_folder(world)
    with servers_of(replica, creds) as servers, stages() as show:
        return take_out(folder, servers, replica, bring=bring_to_folder, progress=show)


def _show_moved(
    world: Path, moved: MovedWorld, replica: ReplicaFile | None, *, as_json: bool
) -> None:
    if as_json:
        kind = "embedded" if replica is None else "replicated"
        print_json(
            {
                "path": str(world), "kind": kind, "stream": moved.stream, "seq": moved.seq,
                "new": moved.is_new,
            }
        )  # fmt: skip
        return
    words = "continues" if moved.is_new else "continues as before"
    if replica is None:
        line(f"embedded: {world} {words} from record {moved.seq:,}", style="bold")
        line(f"  the stream {moved.stream} stays at the servers, sealed; other nodes do not start")
    else:
        line(f"replicated: {world} {words} from record {moved.seq:,}", style="bold")
        line(f"  its log is the stream {moved.stream}")
        line(f"next, on other machines: aos join {replica.address.text} DIR --keys FOLDER")


def _document(adopted: Adopted) -> dict[str, object]:
    return {
        "world": hash_text(adopted.folder.world),
        "path": str(adopted.folder.path),
        "origin": None if adopted.origin is None else adopted.origin.value,
        "keys": list(adopted.keys),
        "seq": adopted.seq,
        "open_intents": adopted.open_intents,
    }


def _show(adopted: Adopted) -> None:
    path = adopted.folder.path
    if adopted.origin is None:
        line(f"adopted already: {path}")
    else:
        line(f"adopted: {path} continues from record {adopted.seq:,}", style="bold")
    line(f"  {hash_text(adopted.folder.world)}")
    for name in adopted.keys:
        line(f"  {path}/keys/{name} copied")
    if adopted.origin is not None and adopted.open_intents:
        line(
            f"  {count(adopted.open_intents, 'open effect')} published again when it runs: this "
            "world must run nowhere else",
            style="yellow",
        )
