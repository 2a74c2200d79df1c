"""The errors of JetStream, and of servers that do not answer (spec/cluster.md, CL-8, CL-21)."""

from __future__ import annotations

import json
from typing import Any, Final

from aos.errors import AosError, Refused, Unavailable, excerpt
from aos.store.errors import NoRoom

NO_STREAM: Final = 10059
NO_MESSAGE: Final = 10037
NAME_TAKEN: Final = 10058
SEALED: Final = 10109
WRONG_LAST: Final = frozenset({10071, 10164})
NO_ROOM: Final = frozenset({10077, 10023, 10047, 10028, 10002})
NO_JETSTREAM: Final = frozenset({10076, 10039})
TOO_FEW_SERVERS: Final = frozenset({10005, 10010, 10074})
NOT_NOW: Final = frozenset(
    {10004, 10007, 10008, 10009, 10041, 10063, 10075, 10118, 10119, 10163, 10194, 10195}
)
"""Codes of JetStream's errors."""


class Unanswered(Unavailable):
    """No server answered. It is not known whether the request was carried out."""


class NoResponder(Unanswered):
    """No program takes such requests: there is no JetStream, or no leader of the stream now."""


class JetStreamError(AosError):
    """JetStream answered with an error. ``code`` is its number (``err_code``)."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code
        self.description = description

    def as_error(self, location: str) -> AosError:
        """The error for a caller that expects none of these."""
        if self.code in NO_ROOM:
            return NoRoom(
                f"{location}: the servers have no room left: {self}", needed_bytes=0, free=0
            )
        if self.code in TOO_FEW_SERVERS:
            return Refused(
                f"there are fewer servers with JetStream than replicas: {self}",
                location=location,
                hint="start the missing servers, or choose --replicas 1",
            )
        return Refused(f"JetStream refuses the request: {self}", location=location)


def read_answer(data: bytes) -> dict[str, Any]:
    """Read an answer of JetStream.

    Raises:
        JetStreamError: It is an error.
        Unanswered: It is no answer of JetStream, or the servers cannot answer now: they elect a
            leader, or start.
    """
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    match document:
        case {"error": {"err_code": int(code), **details}}:
            description = str(details.get("description", "error"))
            if code in NOT_NOW:
                raise Unanswered(f"the servers cannot answer now: {description} ({code})")
            raise JetStreamError(code, description)
        case dict():
            return document
    raise Unanswered(f"no answer of JetStream: {excerpt(repr(data))}")
