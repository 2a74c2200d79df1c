"""The part of a node in the bus of its world (spec/cluster.md, CL-120, CL-125): it passes requests
on to the owner, and serves its own inbox while it owns the world."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.host.cluster.bus_asking import blob_finder, pass_on_to
from aos.host.cluster.bus_client import PATIENCE_S, BusClient
from aos.host.cluster.bus_server import serve_bus
from aos.host.cluster.bus_way import node_client
from aos.host.cluster.following import Fetch
from aos.host.cluster.fresh import FRESH_S, last_record
from aos.host.cluster.registered_worlds import RegisteredSources
from aos.host.door.delivery_targets import DeliverySources
from aos.host.door.exchange import answering
from aos.host.door.listener import Talk
from aos.host.executors.task import Report
from aos.host.folder.folder import WorldFolder
from aos.host.folder.replica_file import ReplicaFile
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection

FETCH_S: Final = 5.0
"""Seconds for which an owner is looked for that may have a value: longer than a takeover takes. The
node does not beat meanwhile."""


class NodeBus(Closable):
    """Requests between the nodes of a world, over a connection of its own. ``stream`` returns that
    of the log, as for ``owner_finder``. ``credentials`` is a file, None for that of the
    environment. ``report`` may be called from any thread."""

    def __init__(
        self,
        folder: WorldFolder,
        replica: ReplicaFile,
        *,
        stream: Callable[[], str],
        credentials: Path | None,
        report: Report,
    ) -> None:
        """Start the connection; no server is asked yet.

        Raises:
            BadUsage: The client of NATS is not installed, or a file is not of its kind.
            Refused, Damage, Unavailable: The key of the world cannot be read.
        """
        self._report = report
        world_key = folder.world_key().verify_key.encode()
        self._connection = NatsConnection(replica.address, NatsAccess.read(credentials))

        def client(patience_s: float) -> BusClient:
            return node_client(
                self._connection, stream=stream, world=folder.world, world_key=world_key,
                patience_s=patience_s,
            )  # fmt: skip

        self.pass_on: Callable[[bytes], Awaitable[bytes]] = pass_on_to(
            self._connection, client(PATIENCE_S)
        )
        """Passes packed messages on to the owner, and returns its packed answers."""
        self._stream = stream
        self._client = client
        self.fetch: Fetch = blob_finder(self._connection, client(FETCH_S), report=report)
        """Asks the owner for a value that this node lacks."""

    def sources(self) -> DeliverySources:
        """The worlds that may deliver to this one."""
        return RegisteredSources(NatsBucket(self._connection, WORLDS, replicas=None))

    @asynccontextmanager
    async def serving(self, inbox: str, talk: Callable[[], Talk]) -> AsyncIterator[None]:
        """Serve the inbox of this node in the block, with the connections that ``talk`` makes."""
        async with serve_bus(self._connection, inbox, answering(talk), report=self._report):
            yield

    async def fresh(self) -> int:
        """Return the last record that the owner of the world had when this was called (CL-203).

        Raises:
            Unavailable: There is no owner, or it changes too often.
        """
        until_s = time.monotonic() + FRESH_S
        return await asyncio.to_thread(
            last_record, self._connection, self._client(PATIENCE_S), self._stream, until_s
        )

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
