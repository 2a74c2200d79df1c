"""A group of replicated worlds that is known by its address, without a folder (spec/cluster.md,
CL-300 to CL-303).

A client that has only the address does not know the key of the group. It trusts those that may
write to the bucket ``AOS`` (CL-125).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aos.host.cluster.bus_way import open_bus_writer, registered_world
from aos.host.cluster.group_registration import (
    check_shard_world,
    find_group_registration,
    shard_address,
)
from aos.host.cluster.registration import NameOfGroup
from aos.host.door.group_writer import GroupWriter
from aos.host.door.way import BUSY_S, WaitPatience
from aos.host.door.writer import Writer
from aos.host.folder.group import GroupShards
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedGroup(GroupShards):
    """The group at an ``address``. Its worlds are those that are registered."""

    address: NatsAddress

    def location(self, index: int) -> Path:
        """The address of a shard. See ``GroupShards``."""
        return Path(shard_address(self.address, index).text)


def find_addressed_group(address: NatsAddress, access: NatsAccess) -> AddressedGroup | None:
    """Return the group that has the name of an address; None if a world has it.

    Raises:
        AosError: As ``open_bus_way``, also if neither has it.
    """
    with NatsConnection(address, access) as connection:
        try:
            registered_world(connection, address)
        except NameOfGroup:
            worlds = NatsBucket(connection, WORLDS, replicas=None)
            group = find_group_registration(worlds, address.name)
            if group is None:
                raise
            return AddressedGroup(path=Path(address.text), worlds=group.worlds, address=address)
    return None


class AddressedGroupWriter(GroupWriter):
    """Sends events to the owners of a group's shards, over one connection.

    ``patience`` gives that of each shard.
    """

    def __init__(
        self,
        group: AddressedGroup,
        access: NatsAccess,
        *,
        busy_s: float = BUSY_S,
        patience: Callable[[], WaitPatience | None] = lambda: None,
    ) -> None:
        """Raises BadUsage: The client of NATS is not installed."""
        super().__init__(group.shards, self._open)
        self._group = group
        self._access = access
        self._busy_s = busy_s
        self._patience = patience
        self._connection = NatsConnection(group.address, access)

    def _open(self, index: int) -> Writer:
        """Open a shard. Raises Damage: Another world is registered in its place."""
        address = shard_address(self._group.address, index)
        writer = open_bus_writer(
            address, self._access, busy_s=self._busy_s, patience=self._patience(),
            connection=self._connection,
        )  # fmt: skip
        check_shard_world(
            address.text, expected=self._group.worlds[index], actual=writer.folder.world
        )
        return writer

    def close(self) -> None:
        """Release all shards, and end the connection."""
        try:
            super().close()
        finally:
            self._connection.close()
