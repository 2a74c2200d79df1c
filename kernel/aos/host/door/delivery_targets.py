"""Where the deliveries of a world go, and where those that it takes come from (spec/world-send.md,
WS-1 to WS-3).

An embedded world has the worlds of its folder as neighbours (``NeighbourTargets``), a replicated
one those that are registered at its servers (``aos.host.cluster.registered_worlds``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from aos.errors import BadUsage, Refused
from aos.host.door.line import Line
from aos.host.door.remote import NotSent
from aos.host.folder.folder import WorldFolder, is_replicated
from aos.host.folder.group import GroupFolder
from aos.host.folder.neighbours import Neighbours
from aos.message_fields import Message
from aos.values.cbor import Value
from aos.values.digests import Hash, hash_text

Wake: TypeAlias = Callable[[WorldFolder], Awaitable[None]]
"""Start the process of a world that sleeps, and wait until it answers. Raises AosError with the
reason if it does not run."""


async def wake_none(folder: WorldFolder) -> None:
    """A ``Wake`` where no node serves the worlds. Raises: Unavailable: Always."""
    raise NotSent("no process runs this world", location=str(folder.path))


class DeliveryWay(Protocol):
    """A connection to the process that runs one world. It carries one request at a time."""

    async def ask(self, request: Mapping[str, Value]) -> Message:
        """Send a request and return its answer. Raises: AosError: There is none, or it is an
        error."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWorld:
    """A world that takes deliveries. ``place`` is where it is now; ``connect`` makes a connection
    to it there, which is made once it is used."""

    world: Hash
    place: str
    connect: Callable[[], DeliveryWay]


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """A group that takes deliveries: each is for one of its shards, or for each of them."""

    shards: tuple[TargetWorld, ...]


class DeliveryTargets(Protocol):
    """Finds the targets of one world by their names. Used from one event loop."""

    @property
    def own_name(self) -> str | None:
        """The name under which targets find this world, if they need one."""
        ...

    async def begin(self) -> None:
        """Get ready. Raises AosError."""
        ...

    async def find(self, to: str) -> TargetWorld | TargetGroup:
        """Look up a name. Raises: BadUsage: No neighbour has it. AosError: It is not known."""
        ...

    async def close(self) -> None:
        """Release everything. Connections must be closed before."""
        ...


class DeliverySources(Protocol):
    """Knows the worlds that may deliver to one world."""

    async def check(self, source: Hash, public_key: bytes, name: str | None) -> None:
        """Check a source by its id, its key, and the name that it gives itself, if any.

        Raises:
            Refused: It is no neighbour.
            AosError: It is not known.
        """
        ...


class NeighbourTargets:
    """The neighbours of an embedded world, in the same folder."""

    own_name = None

    def __init__(self, folder: WorldFolder, wake: Wake = wake_none) -> None:
        self._neighbours = Neighbours(folder)
        self._wake = wake

    async def begin(self) -> None:
        """Nothing to do."""

    async def find(self, to: str) -> TargetWorld | TargetGroup:
        """See ``DeliveryTargets``."""
        group = self._neighbours.group_of(to)
        if group is not None:
            if is_replicated(group.shard_path(0)):
                raise _replicated(to, group.path)
            return TargetGroup(
                tuple(
                    TargetWorld(
                        world=world, place=str(group.shard_path(index)),
                        connect=partial(self._shard, group, index),
                    )
                    for index, world in enumerate(group.worlds)
                )
            )  # fmt: skip
        folder = self._neighbours.place_of(to)
        if is_replicated(folder.path):
            raise _replicated(to, folder.path)
        return TargetWorld(
            world=folder.world,
            place=str(folder.path),
            connect=lambda: _WakingLine(folder, self._wake),
        )

    def _shard(self, group: GroupFolder, index: int) -> DeliveryWay:
        return _WakingLine(group.shard(index), self._wake)

    async def close(self) -> None:
        """Nothing to do."""


def _replicated(to: str, path: Path) -> BadUsage:
    return BadUsage(
        f"{to} is replicated, and takes events from the worlds of its servers",
        location=str(path),
        expected="an embedded world or group",
    )


class _WakingLine:
    """A connection to a neighbour, which is woken if it sleeps."""

    def __init__(self, folder: WorldFolder, wake: Wake) -> None:
        self._folder = folder
        self._line = Line(folder)
        self._wake = wake

    async def ask(self, request: Mapping[str, Value]) -> Message:
        try:
            return await self._line.ask(request)
        except NotSent:
            await self._wake(self._folder)
            return await self._line.ask(request)

    def close(self) -> None:
        self._line.close()


class NeighbourSources:
    """The neighbours of an embedded world, in the same folder."""

    def __init__(self, folder: WorldFolder) -> None:
        self._neighbours = Neighbours(folder)

    async def check(self, source: Hash, public_key: bytes, name: str | None) -> None:  # noqa: ARG002
        """See ``DeliverySources``."""
        if not self._neighbours.has(source):
            raise Refused(
                f"world {hash_text(source)} is no neighbour",
                expected=f"another world in {self._neighbours.path}",
            )
