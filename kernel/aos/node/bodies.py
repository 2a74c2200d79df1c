"""Bodies of requests and answers: strict JSON or CBOR, both ways
(spec/node-api.md, N-110 to N-113)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aos.node.problems import Problem
from aos.values import cbor
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
BYTES: Final = "application/octet-stream"
FORM: Final = "application/x-www-form-urlencoded"
"""The type that curl gives to a body of ``-d``; no route takes forms, so it is read as JSON."""

PROBLEM: Final = "application/problem+json"

BODY_S: Final = 30.0
"""Seconds in which a whole body must arrive."""

KIB: Final = 1024
MIB: Final = 1024 * KIB
BODIES_BYTES_MAX: Final = 64 * MIB
"""Bytes of all bodies that are in memory at the same time."""

BATCH_BYTES_MAX: Final = 16 * MIB
FIELDS_BYTES: Final = 16 * KIB
"""Room for the fields around an event, or for a small request."""

ITEMS_MAX: Final = 1 << 20
LARGE_BYTES: Final = 256 * KIB
"""From this size on, a body is parsed on another thread, so that others are served meanwhile."""

Receive = Callable[[], Awaitable[Any]]


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class BodyRoom:
    """The memory for all bodies together."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self._free = bytes_max

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """A function that takes bytes of the room, until the end of the block.

        It raises Problem (429) if there are not so many.
        """
        taken_bytes = 0

        def take(size: int) -> None:
            nonlocal taken_bytes
            if size > self._free:
                raise Problem(
                    429, "bodies_have_no_room",
                    "the node has no memory left for bodies of requests (send again in a "
                    "moment)", retry_after_s=1,
                )  # fmt: skip
            self._free -= size
            taken_bytes += size

        try:
            yield take
        finally:
            self._free += taken_bytes


async def receive_body(
    receive: Receive,
    *,
    bytes_max: int,
    declared: int | None,
    take: Callable[[int], None],
    seconds: float = BODY_S,
) -> bytes:
    """Receive a body of at most ``bytes_max`` bytes, counted as they come.

    Raises:
        Problem: It is longer (413), or does not arrive in time (408), or has no room (429).
        ClientGoneError: The connection was closed before its end.
    """
    if declared is not None and declared > bytes_max:
        raise too_large(bytes_max)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGoneError
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > bytes_max:
                    raise too_large(bytes_max)
                take(len(part))
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Problem(
            408,
            "body_is_late",
            f"the body did not arrive within {seconds:g} s (send it without pauses)",
        ) from None


def too_large(bytes_max: int) -> Problem:
    """The problem of a body of more than ``bytes_max`` bytes."""
    return Problem(413, "body_is_too_large", f"the body: expected at most {bytes_max:,} bytes")


def media_type(content_type: str | None, allowed: tuple[str, ...]) -> str:
    """Return the type of a body: one of ``allowed``, by default the first.

    Raises:
        Problem: It is another one, or text in another charset (415).
    """
    if content_type is None:
        return allowed[0]
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = [parameter for parameter in parameters if parameter.startswith("charset=")]
    is_utf8 = all(charset.strip('"') in ("charset=utf-8", 'charset="utf-8') for charset in charsets)
    if kind == FORM and allowed[0] == JSON:
        kind = JSON
    if kind not in allowed or not is_utf8:
        raise Problem(
            415, "media_type_is_unknown",
            f"content-type: expected {' or '.join(allowed)} in UTF-8, found {content_type[:80]!r}",
        )  # fmt: skip
    return kind


def parse(kind: str, data: bytes) -> object:
    """Parse a body strictly.

    Raises:
        Problem: It is not valid JSON or CBOR of the subset that the world accepts (400).
    """
    try:
        if kind == CBOR:
            return cbor.decode_ingress(data, max_bytes=len(data), max_items=ITEMS_MAX)
        return parse_json(_text(data), max_bytes=len(data), max_items=ITEMS_MAX)
    except ValueProblem as problem:
        raise Problem(400, "body_is_malformed", f"body: {problem}") from None


async def parse_aside(kind: str, data: bytes) -> object:
    """The same; a large body on another thread."""
    if len(data) < LARGE_BYTES:
        return parse(kind, data)
    return await asyncio.to_thread(parse, kind, data)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Problem(
            400, "body_is_malformed",
            f"body: expected UTF-8, found another byte at offset {error.start}",
        ) from None  # fmt: skip


def accepts_cbor(accept: str | None) -> bool:
    """Return whether an ``Accept`` header prefers CBOR: it names CBOR, and JSON not before it."""
    kinds = (accept or "").lower()
    return CBOR in kinds and (JSON not in kinds or kinds.index(CBOR) < kinds.index(JSON))


def write_json(document: object) -> bytes:
    """JSON in UTF-8. Bytes are written as base64."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=_plain)
    # Only the name of a file can have a lone surrogate; all other text comes from checked UTF-8.
    return text.encode(errors="backslashreplace")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON")


def write_cbor(document: Any) -> bytes:
    """Canonical CBOR of a document."""
    return cbor.encode(_cbor_value(document))


def _cbor_value(value: Any) -> Any:
    match value:
        case dict():
            return {key: _cbor_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_cbor_value(element) for element in value]
        case int() if not cbor.INTEGER_MIN <= value <= cbor.INTEGER_MAX:
            return str(value)
        case float():
            return str(value)
    return value
