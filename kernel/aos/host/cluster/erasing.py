"""Whether the servers of a replicated world still have a value that was erased (spec/cluster.md,
CL-137, CL-188)."""

from __future__ import annotations

from pathlib import Path

from aos.host.cluster.base import open_erasure
from aos.host.cluster.connecting import connected_servers
from aos.host.cluster.registration import registered
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.store.log.nats_address import NatsAccess
from aos.store.log.patience import patiently


def open_erasure_of(path: Path, access: NatsAccess, seq: int) -> str | None:
    """Return why the servers of the world of a node's folder may still have a value that record
    ``seq`` has erased; None if they have it no more. It asks them.

    Raises:
        BadUsage: The client of NATS is not installed.
        Refused: The servers refuse this program, or do not have this world.
        Unavailable: They do not answer.
    """
    replica, world_key = replica_of(path), open_folder(path).world_key().verify_key.encode()
    name = replica.address.name
    with connected_servers(replica.address, access) as servers:
        registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
        return patiently(lambda: open_erasure(servers.streams, registration, seq))
