"""A request as a handler sees it, the two kinds of answer that a handler gives, and whether a
client has read its answer, as far as its connection shows (N-52a).
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from aos.node.bodies import ClientGoneError
from aos.node.routes import ApiRoute
from aos.node.tokens import Token

SCOPE_KEY: Final = "aos.connection"
"""The key of a request's scope under which a front puts the connection of its client."""

PREFIX_KEY: Final = "aos.prefix"
"""The key of a request's scope for the prefix that was taken from its path, that of a mounted world
(N-132b). The addresses in its answer have the same prefix."""


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

    def watch(self, listener: DeliveryListener) -> None:
        """Call ``listener`` once, when the delivery of the answer of this request is known."""


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


class ClaimRequests:
    """The requests of each claim that are not over yet, by keys of their desk (N-52)."""

    def __init__(self) -> None:
        self._by_claim: dict[Hashable, list[object]] = {}
        self._last: dict[Hashable, object] = {}

    def begin(self, key: Hashable) -> object:
        """Note a request: the worker waits for its answer alone."""
        request = self._last[key] = object()
        self._by_claim.setdefault(key, []).append(request)
        return request

    def resume(self, key: Hashable, request: object) -> None:
        """Note that a request has a part that continues after its caller is gone."""
        self._by_claim[key].append(request)

    def is_last(self, key: Hashable, request: object) -> bool:
        """Whether the worker has not repeated the claim since."""
        return self._last.get(key) is request

    def end(self, key: Hashable, request: object) -> bool:
        """Note the end of a request. Returns whether it was the only one of its claim."""
        requests = self._by_claim[key]
        requests.remove(request)
        if requests:
            return False
        del self._by_claim[key], self._last[key]
        return True


class AnsweredClaims:
    """The claims whose answers are on their way to workers (N-52a), by keys of their desk."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, object] = {}

    def repeated(self, key: Hashable) -> None:
        """The worker makes this claim again and gets what it got before: earlier answers do not
        matter any more."""
        self._answers.pop(key, None)

    def watch(
        self, key: Hashable, connection: ClientConnection, take_back: Callable[[Delivery], None]
    ) -> None:
        """Call ``take_back`` if the answer to a claim does not, or may not, reach its client.

        Raises:
            ClientGoneError: It cannot: the client has closed the connection. ``take_back`` was
                called.
        """
        if connection.is_gone():
            take_back(Delivery.UNREAD)
            raise ClientGoneError
        this_answer = self._answers[key] = object()

        def delivered(delivery: Delivery) -> None:
            if self._answers.get(key) is not this_answer:
                return  # the worker made the claim again
            del self._answers[key]
            if delivery is not Delivery.READ:
                take_back(delivery)

        connection.watch(delivered)


@dataclass(slots=True, kw_only=True)
class ApiCall:
    """One request after every check of the table: its caller may make it, its query and body fit.

    ``query`` has a value for each parameter with a default. ``headers`` have lower-case names.
    ``data`` are the bytes of the body, ``is_cbor`` whether they are CBOR; ``raw_query`` is the
    query as it came, ``prefix`` that of its path. ``is_passed_on``: another node's front sent it.
    ``admitted_seq`` is the record of an input of the request, once there is one.
    """

    route: ApiRoute
    caller: Token
    query: Mapping[str, Any]
    headers: Mapping[bytes, bytes]
    body: Any = None
    data: bytes = b""
    is_cbor: bool = False
    raw_query: bytes = b""
    prefix: str = ""
    is_passed_on: bool = False
    admitted_seq: int | None = None
    connection: ClientConnection = SILENT


@dataclass(slots=True, kw_only=True)
class ApiReply:
    """An answer: a document, which is written as JSON or CBOR, or bytes with their media type.
    ``json`` is a document that is written as JSON already."""

    document: object = None
    json: bytes | None = None
    status: int = 200
    data: bytes | None = None
    media: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ApiStream:
    """An answer without an end. ``parts`` is read at the client's pace."""

    parts: AsyncIterator[bytes]
    media: str
