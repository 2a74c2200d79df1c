"""Where a node answers: a URL, or the folder of a world on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.errors import BadUsage

SOCKET: Final = Path("node") / "http.sock"
"""The socket of a node in its world's folder. It needs no token."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """``base`` is the URL of the node; with ``socket`` it is reached through that socket."""

    base: str
    socket: Path | None = None

    @property
    def label(self) -> str:
        """The address as messages name it."""
        return self.base if self.socket is None else str(self.socket)

    @property
    def is_served(self) -> bool:
        """Whether the socket exists; True of a URL."""
        return self.socket is None or self.socket.exists()

    @classmethod
    def read(cls, text: str) -> NodeAddress:
        """Read ``http://…``, ``https://…`` or the path of a world's folder.

        Raises:
            BadUsage: It is a URL of another kind.
        """
        if text.startswith(("http://", "https://")):
            return cls(text.rstrip("/"))
        if "://" in text:
            raise BadUsage(
                f"node {text!r}: expected a URL with http:// or https://, or the folder of a world"
            )
        return cls("http://node", Path(text) / SOCKET)
