"""The neighbours of a replicated world: the worlds that are registered at its servers
(spec/cluster.md, CL-250 to CL-254).

A delivery goes to the inbox of the target's owner, as any request of a client. The target checks
that the source has a registration under the name that it gives, signed by the source's key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from aos.errors import BadUsage, Refused, Unavailable
from aos.host.cluster.bus_asking import ask_owner, joined
from aos.host.cluster.bus_client import BusClient
from aos.host.cluster.bus_way import address_client
from aos.host.cluster.group_registration import find_group_registration, shard_address
from aos.host.cluster.registration import NameOfGroup, check_in_servers, find_registration
from aos.host.door.delivery_targets import TargetGroup, TargetWorld
from aos.host.door.protocol import bodies_of, raise_error, unpack
from aos.host.door.way import WaitPatience
from aos.host.folder.replica_file import ReplicaFile
from aos.message_fields import Message
from aos.store.log.bucket import KEY, Bucket
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.values.cbor import Value
from aos.values.digests import Hash, hash_text

OWNER_S: Final = 5.0
"""Seconds for which the owner of a target is looked for. Then the delivery has a pause (WS-33)."""


class RegisteredTargets:
    """The targets of a replicated world, over a connection of its own. ``credentials`` is a file,
    None for that of the environment."""

    def __init__(self, replica: ReplicaFile, world: Hash, credentials: Path | None) -> None:
        self.own_name: Final = replica.address.name
        self._address = replica.address
        self._world = world
        self._credentials = credentials
        self._connection: NatsConnection | None = None

    async def begin(self) -> None:
        """Start the connection; no server is asked yet. Raises: BadUsage: The client of NATS is not
        installed, or a file is not of its kind."""
        access = NatsAccess.read(self._credentials)
        self._connection = await asyncio.to_thread(NatsConnection, self._address, access)

    async def find(self, to: str) -> TargetWorld | TargetGroup:
        """See ``DeliveryTargets``."""
        assert self._connection is not None, "it has begun"
        connection = self._connection
        if not KEY.fullmatch(to):
            raise BadUsage(
                "not a name of a world",
                expected="letters, digits, _ and -, with dots between them",
                actual=repr(to),
            )
        worlds = NatsBucket(connection, WORLDS, replicas=None)
        try:
            entry = await asyncio.to_thread(find_registration, worlds, to)
        except NameOfGroup:
            return await self._group(worlds, to)
        if entry is None:
            raise BadUsage(
                f"no world is called {to}",
                location=",".join(self._address.servers),
                hint="aos cluster status",
            )
        registration = entry.registration
        if registration.world == self._world:
            raise BadUsage(f"{to} is the world itself (emit the event instead)")
        check_in_servers(registration)
        return self._target(worlds, to, registration.world)

    async def _group(self, worlds: Bucket, to: str) -> TargetGroup:
        group = await asyncio.to_thread(find_group_registration, worlds, to)
        if group is None:
            raise Unavailable(f"{to}: its registration has changed")
        address = replace(self._address, name=to)
        return TargetGroup(
            tuple(
                self._target(worlds, shard_address(address, index).name, world)
                for index, world in enumerate(group.worlds)
            )
        )

    def _target(self, worlds: Bucket, name: str, world: Hash) -> TargetWorld:
        assert self._connection is not None, "it has begun"
        return TargetWorld(
            world=world,
            place=name,
            connect=partial(_BusDeliveries, self._connection, worlds, name, world),
        )

    async def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)


class _BusDeliveries:
    """Deliveries to the owner of the world that is registered under a name. It keeps no connection
    of its own."""

    def __init__(self, connection: NatsConnection, worlds: Bucket, name: str, world: Hash) -> None:
        self._connection = connection
        self._worlds = worlds
        self._name = name
        self._world = world
        self._client: BusClient | None = None
        self._stream = ""

    async def ask(self, request: Mapping[str, Value]) -> Message:
        """A delivery may be repeated, so it is sent to the next owner too (CL-126)."""
        messages = joined([request])
        client = await self._current_client()
        asking = self._connection.start(ask_owner(client, messages))
        [body] = bodies_of(await asyncio.wrap_future(asking))
        answer = unpack(body)
        raise_error(answer)
        return answer

    async def _current_client(self) -> BusClient:
        """The client for the log that the registration names now. Raises: AosError: The name has
        another world, or none, or it is not known."""
        entry = await asyncio.to_thread(find_registration, self._worlds, self._name)
        if entry is None or entry.registration.world != self._world:
            raise Unavailable(f"{self._name}: its registration has changed")
        check_in_servers(entry.registration)
        stream = entry.registration.stream
        if self._client is None or stream != self._stream:
            self._stream = stream
            self._client = address_client(
                self._connection, stream=stream, world=self._world,
                patience=WaitPatience(OWNER_S),
            )  # fmt: skip
        return self._client

    def close(self) -> None:
        pass


class RegisteredSources:
    """The worlds that may deliver to one: those with a registration in ``worlds``. A shard may be
    its own source, by the name of its group."""

    def __init__(self, worlds: Bucket) -> None:
        self._worlds = worlds

    async def check(self, source: Hash, public_key: bytes, name: str | None) -> None:
        """See ``DeliverySources``. The registration is read each time: a world that was taken out
        of the servers delivers no more."""
        entry = None
        if name is not None and KEY.fullmatch(name):
            entry = await asyncio.to_thread(find_registration, self._worlds, name)
        if entry is None:
            raise _no_neighbour(source)
        registration = entry.registration
        is_source = registration.world == source and registration.is_of(public_key)
        if not is_source or registration.taken_by is not None:
            raise _no_neighbour(source)


def _no_neighbour(source: Hash) -> Refused:
    return Refused(
        f"world {hash_text(source)} is no neighbour",
        expected="a world that is registered at the same servers",
    )
