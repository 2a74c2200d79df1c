"""The streams of a world at its servers: that of its log, and those of its bases (spec/cluster.md,
CL-11, CL-131).

    AOS-<16 hex digits of the world>-<nonce>         the log
    AOS-BASE-<16 hex digits of the world>-<nonce>    a base: its messages are parts of entries, too
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple, Protocol

from aos.store.log.log import Log
from aos.values.digests import Hash

BASE_PREFIX: Final = "AOS-BASE-"


class StreamAge(NamedTuple):
    """A stream of a base, and for how long nothing was written to it, in nanoseconds."""

    name: str
    idle_ns: int


class WorldStreams(Protocol):
    """Makes, opens and removes the streams of worlds. Methods may be called from one thread.

    Each raises LogUnreachable without an answer: it is unknown whether it was carried out, and
    calling it again is right. Each may raise Refused, with the reason of the servers.
    """

    def make(self, stream: str) -> None:
        """Make a stream, unless it is there with the settings of CL-12."""

    def log(self, stream: str) -> Log:
        """Open a stream. Raises: Damage: There is none of this name."""

    def part_bytes(self) -> int:
        """Return the longest part of an entry that the servers take."""

    def size_bytes(self, stream: str) -> int:
        """Return the size of the messages in a stream. Raises: Damage: There is none."""

    def first(self, stream: str) -> int:
        """Return the position of the first message that a stream still has, or will have. Raises:
        Damage: There is none of this name."""

    def seal(self, stream: str) -> None:
        """Let a stream take no message any more. Raises: Damage: There is none of this name."""

    def remove(self, stream: str) -> None:
        """Remove a stream with its messages, if it is there."""

    def bases(self, world: Hash) -> list[StreamAge]:
        """Return the streams of bases of a world, whole or not, by name."""


def new_base_name(world: Hash) -> str:
    """Return a name for the stream of a base, which no other stream ever had."""
    return f"{base_prefix(world)}{secrets.token_hex(8)}"


def base_prefix(world: Hash) -> str:
    """How the names of all bases of a world begin."""
    return f"{BASE_PREFIX}{world.hex()[:16]}-"
