"""``aos cluster base``, ``restore`` and ``forget``: the folders of nodes and the servers
(spec/cli.md, C-171 to C-173)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from aos.errors import BadUsage
from aos.shell_text import shell_word
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, option
from aos_cli.output import line, print_json
from aos_cli.servers import Creds, node_folder, servers_of, stages


def base(*, world: World = DEFAULT_WORLD, creds: Creds = None, json: Json = False) -> None:
    from aos.host.cluster.base import make_base  # noqa: PLC0415  # replicated worlds alone
    from aos.store.lmdb_store import LmdbStore  # noqa: PLC0415

    folder, replica = node_folder(world)
    with (
        servers_of(replica, creds) as servers,
        LmdbStore.open(folder.path / "store", readonly=True) as store,
        stages() as show,
    ):
        size = store.size_bytes()
        made = make_base(
            servers,
            replica.address.name,
            store,
            folder.world_key(),
            advance=lambda done: show("writing the base", done, max(done, size)),
        )
    end = made.base.end
    if json:
        print_json(
            {
                "stream": made.base.stream, "seq": end.seq, "position": end.position,
                "new": made.is_new, "removed": list(made.removed),
            }
        )  # fmt: skip
        return
    words = "new base" if made.is_new else "there is a base already"
    line(f"{words}: the world to record {end.seq:,}, in stream {made.base.stream}", style="bold")
    if end.position:
        line(f"  the log is trimmed to position {end.position:,}")
    for stream in made.removed:
        line(f"  {stream} removed")


def restore(
    name: Annotated[str, argument("NAME", "Name of the world.")],
    *,
    source: Annotated[Path, option("DIR", "Folder of the node with the most records.", "--from")],
    accept_loss: Annotated[
        bool,
        flag("--accept-loss", "Give up later records that only a lost node had."),
    ] = False,
    creds: Creds = None,
    json: Json = False,
) -> None:
    from aos.host.cluster.connecting import durability_check  # noqa: PLC0415
    from aos.host.cluster.replicating import restore_log  # noqa: PLC0415

    folder, replica = node_folder(source)
    if replica.address.name != name:
        raise BadUsage(
            "this folder is of another world",
            location=str(source),
            expected=name,
            actual=replica.address.name,
        )
    with servers_of(replica, creds) as servers, stages() as show:
        restored = restore_log(
            folder,
            servers,
            replica,
            accepts_loss=accept_loss,
            check=durability_check(
                servers, replica.monitors, is_unverified=replica.unverified_durability
            ),
            progress=show,
        )
    if json:
        print_json({"stream": restored.stream, "seq": restored.seq, "new": restored.is_new})
        return
    line(f"restored: {name} continues from record {restored.seq:,}", style="bold")
    line(f"  its log is the stream {restored.stream}; other nodes join it when they start")
    line(f"next: aos run --world {shell_word(source)}")


def forget(
    directory: Annotated[Path, argument("DIR", "Folder of the node.")],
    *,
    yes: Annotated[bool, flag("--yes", "Remove it, with its keys.")] = False,
    creds: Creds = None,
    json: Json = False,
) -> None:
    from aos.host.cluster.forgetting import forget_node  # noqa: PLC0415

    folder, replica = node_folder(directory)
    if not yes:
        raise BadUsage(
            "this removes the folder of a node, with its keys",
            location=str(directory),
            hint="make sure that world.key is in another folder, then add --yes",
        )
    with servers_of(replica, creds) as servers:
        forget_node(folder, servers, replica)
    if json:
        print_json({"path": str(directory), "node": replica.node})
    else:
        line(f"removed: {directory}, which was node {replica.node}", style="bold")
