"""``--fresh``: read no less than the world has acknowledged (spec/cli.md, C-8d)."""

from __future__ import annotations

from pathlib import Path

from aos.errors import BadUsage
from aos.host.folder.folder import is_group
from aos.host.folder.replica_file import find_replica
from aos.store.log.nats_address import NatsAccess
from aos_cli.options import address_of


def wait_for_folder(world: Path, node: str | None) -> None:
    """Wait until the folder of a node, or that of each shard of a group, has everything that its
    world has acknowledged. An embedded world has.

    Raises:
        BadUsage: The world is not named by a folder.
        Unavailable: It takes too long.
    """
    if node is not None or address_of(world) is not None:
        raise BadUsage("--fresh goes with the folder of a world", expected="--world DIR")
    if not is_group(world):
        _wait(world)
        return
    # Few worlds are groups.
    from aos.host.folder.group import open_group  # noqa: PLC0415

    group = open_group(world)
    for index in range(group.shards):
        _wait(group.shard(index).path)


def _wait(world: Path) -> None:
    if find_replica(world) is not None:
        # Few worlds are replicated.
        from aos.host.cluster.fresh import wait_until_fresh  # noqa: PLC0415

        wait_until_fresh(world, NatsAccess.read())
