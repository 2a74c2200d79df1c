"""A request as a handler sees it, and the two kinds of answer that a handler gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aos.node.routes import ApiRoute
from aos.node.tokens import Token
from aos.node.unread_answers import SILENT, ClientConnection


@dataclass(slots=True, kw_only=True)
class ApiCall:
    """One request after every check of the table: its caller may make it, its query and body fit.

    ``query`` has a value for each parameter with a default. ``headers`` have lower-case names.
    ``size`` is the length of the body in bytes, ``is_cbor`` whether the body is CBOR.
    """

    route: ApiRoute
    caller: Token
    query: Mapping[str, Any]
    headers: Mapping[bytes, bytes]
    body: Any = None
    size: int = 0
    is_cbor: bool = False
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
