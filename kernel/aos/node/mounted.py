"""A world that is mounted: a router serves it at a name, next to others, and passes on the requests
for it (spec/node-api.md, N-132a).

    client ──TCP, TLS──▶ router ──door──▶ front of the world NAME

The door is a listening socket that only the router can reach. A client could say anything about
itself there; the router says where and from whom a request has arrived.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from aos.errors import BadUsage

MOUNTS: Final = "/w/"
"""The address below which all worlds of a router are."""

SCHEMES: Final = ("http", "https")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def check_mount_name(name: str) -> None:
    """Raise BadUsage if a world cannot be mounted at this name, which is a part of URLs."""
    if not _NAME.fullmatch(name):
        raise BadUsage(
            "not a name of a mounted world",
            expected="1 to 63 small letters, digits and dashes, and no dash at the beginning",
            actual=repr(name),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """How a router serves the world of a node.

    ``door`` listens for the router alone. Clients reach the router at ``server`` by ``scheme``.
    ``tokens`` is the file of the tokens for all worlds (N-134a).

    Raises:
        BadUsage: The name or the scheme is not valid.
    """

    name: str
    door: socket.socket
    server: tuple[str, int]
    scheme: str
    tokens: Path | None = None

    def __post_init__(self) -> None:
        check_mount_name(self.name)
        if self.scheme not in SCHEMES:
            raise BadUsage("scheme of a router", expected="http or https", actual=repr(self.scheme))

    def settings(self) -> dict[str, Any]:
        """The same for the front, which inherits the door."""
        return {
            "name": self.name,
            "door": self.door.fileno(),
            "server": list(self.server),
            "scheme": self.scheme,
            "tokens": None if self.tokens is None else str(self.tokens.absolute()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPoint:
    """``Mounted`` as the front has it: ``door`` is a descriptor."""

    name: str
    door: int
    server: tuple[str, int]
    scheme: str
    tokens: Path | None

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Read what ``Mounted.settings`` returns. Raises KeyError, TypeError or ValueError for
        anything else."""
        host, port = fields["server"]
        tokens = fields["tokens"]
        return cls(
            name=fields["name"],
            door=fields["door"],
            server=(host, port),
            scheme=fields["scheme"],
            tokens=None if tokens is None else Path(tokens),
        )

    @property
    def prefix(self) -> str:
        """The address of the world, without a slash at its end."""
        return f"{MOUNTS}{self.name}"
