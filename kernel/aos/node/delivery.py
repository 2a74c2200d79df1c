"""Whether a client has read its answer, as far as its connection shows (N-52a)."""

from __future__ import annotations

import enum
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

SCOPE_KEY: Final = "aos.connection"
"""The key of a request's scope under which a front puts the connection of its client."""


class Delivery(enum.Enum):
    """How the connection of an answer ended, or was used again."""

    READ = "read"
    """Nothing shows that the client did not read the answer."""
    UNREAD = "unread"
    """The client cannot have read the whole answer."""
    IN_DOUBT = "in doubt"
    """The connection was reset: most probably the client did not read the answer."""


DeliveryListener: TypeAlias = Callable[[Delivery], None]


class ClientConnection(Protocol):
    """The connection of one request."""

    def is_gone(self) -> bool:
        """Return whether the client has closed it; no answer would reach the client any more."""
        ...

    def watch(self, listener: DeliveryListener) -> None:
        """Call ``listener`` once, when the delivery of the answer of this request is known."""
        ...


class _SilentConnection:
    """A connection of which nothing is known: its client is there, and reads every answer."""

    def is_gone(self) -> bool:
        return False

    def watch(self, listener: DeliveryListener) -> None:
        """Never call ``listener``."""


SILENT: Final[ClientConnection] = _SilentConnection()


def connection_of(scope: MutableMapping[str, Any]) -> ClientConnection:
    """Return the connection of a request."""
    connection: ClientConnection = scope.get(SCOPE_KEY, SILENT)
    return connection
