"""The servers that a command of ``aos cluster`` asks: an address, or those of a node's folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from aos.errors import BadUsage
from aos.host.cluster.overview import FolderOverview, read_node_folder
from aos.host.folder.folder import REPLICA_FILE
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos_cli.options import argument, option

ClusterAddress = Annotated[
    str | None,
    argument(
        "[ADDRESS]",
        "Servers, and a world on them: nats://HOST,HOST/NAME, or without the name for all worlds "
        "(default: those of the folder).",
    ),
]

Credentials = Annotated[
    Path | None,
    option("FILE", "Credentials for the servers (default: the file that AOS_NATS_CREDS names)."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """An address without a name is that of all worlds of its servers. ``folder`` is that of a node,
    if there is one."""

    address: NatsAddress
    access: NatsAccess
    folder: FolderOverview | None


def check_one_source(address: str | None, node: str, credentials: Path | None) -> None:
    """Check that a command asks either a node over HTTP or servers. Raises: BadUsage: Both."""
    if address is not None or credentials is not None:
        raise BadUsage(
            "--node: the node asks its own servers",
            expected="no ADDRESS and no --creds",
            actual=node,
        )


def cluster_target(address: str | None, folder: Path, credentials: Path | None) -> ClusterTarget:
    """Read the address, or, without one, the folder of a node.

    With an address, the folder is read too if it is that of a node: it has the key of its world.

    Raises:
        BadUsage: The address or the credentials are invalid. There is no address, and the folder is
            not that of a node.
        AosError: As ``read_node_folder``.
    """
    access = NatsAccess.read(credentials)
    if address is None:
        node_folder = read_node_folder(folder)
        return ClusterTarget(address=node_folder.replica.address, access=access, folder=node_folder)
    has_node = os.path.lexists(folder / REPLICA_FILE)
    return ClusterTarget(
        address=NatsAddress.parse(address, needs_name=False),
        access=access,
        folder=read_node_folder(folder) if has_node else None,
    )
