"""The servers of a replicated world, as commands name them (spec/cli.md, C-5): options, the
connection, and progress in stages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.errors import BadUsage
from aos_cli.options import flag, option
from aos_cli.output import progress

if TYPE_CHECKING:
    from aos.host.cluster.base import WorldServers
    from aos.host.folder.folder import WorldFolder
    from aos.host.folder.replica_file import ReplicaFile

Creds = Annotated[
    Path | None,
    option("FILE", "File with the credentials for the servers. Default: AOS_NATS_CREDS."),
]
Monitors = Annotated[
    list[str] | None,
    option(
        "URL",
        "Address of a server for monitoring, such as http://10.0.0.1:8222, to check that it syncs. "
        "Give it for each server.",
        "--monitor",
    ),
]
Unverified = Annotated[
    bool,
    flag(
        "--unverified-durability",
        "Do not check that the servers sync. Acknowledged records can be lost.",
    ),
]
NodeName = Annotated[
    str | None, option("NODE", "Name of this node. Default: the name of the machine.")
]


def replica_file(
    url: str, *, node: str | None, monitors: list[str] | None, is_unverified: bool
) -> ReplicaFile:
    """The ``replica.json`` of a new node, without its stream.

    Raises:
        BadUsage: The address has another form, or nothing says whether the servers sync.
    """
    from aos.host.cluster.connecting import machine_name  # noqa: PLC0415  # replicated worlds alone
    from aos.host.folder.replica_file import ReplicaFile  # noqa: PLC0415
    from aos.store.log.nats_address import NatsAddress  # noqa: PLC0415

    check_monitors(monitors, is_unverified=is_unverified)
    return ReplicaFile(
        address=NatsAddress.parse(url),
        stream="",
        node=node or machine_name(),
        monitors=tuple(monitors or ()),
        unverified_durability=is_unverified,
    )


def check_monitors(monitors: list[str] | None, *, is_unverified: bool) -> None:
    """Raises: BadUsage: Nothing says whether the servers sync."""
    if not monitors and not is_unverified:
        raise BadUsage(
            "it is not known whether the servers sync what they acknowledge",
            expected="--monitor URL for each server, such as http://10.0.0.1:8222",
            actual="none",
            hint="or accept the loss of acknowledged records: --unverified-durability",
        )


def node_folder(path: Path) -> tuple[WorldFolder, ReplicaFile]:
    """The folder of a node. Raises: BadUsage: It has an embedded world, or none."""
    from aos.host.folder.folder import open_folder  # noqa: PLC0415
    from aos.host.folder.replica_file import find_replica  # noqa: PLC0415

    folder = open_folder(path)
    replica = find_replica(path)
    if replica is None:
        raise BadUsage(
            "the world in this folder is embedded",
            location=str(path),
            expected="the folder of a node of a replicated world",
            hint="make it replicated: aos adopt --store URL",
        )
    return folder, replica


@contextlib.contextmanager
def servers_of(
    replica: ReplicaFile, creds: Path | None, *, replicas: int | None = None
) -> Iterator[WorldServers]:
    """Connect to the servers of a node. Raises as ``connected_servers``."""
    from aos.host.cluster.connecting import connected_servers  # noqa: PLC0415
    from aos.store.log.nats_address import NatsAccess  # noqa: PLC0415

    access = NatsAccess.read(creds)
    with connected_servers(replica.address, access, replicas=replicas) as servers:
        yield servers


@contextlib.contextmanager
def stages() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of a command that has stages, each as ``progress`` does."""
    with contextlib.ExitStack() as stack:
        shown = ""
        advance: Callable[[int, int], object] = lambda *_: None  # noqa: E731

        def show(stage: str, done: int, total: int) -> None:
            nonlocal shown, advance
            if stage != shown:
                stack.pop_all().close()
                shown, advance = stage, stack.enter_context(progress(stage))
            advance(done, total)

        yield show
