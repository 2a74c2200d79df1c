"""Read server-sent events from the parts of a body (spec/node-api.md, N-116)."""

from __future__ import annotations

import json
from typing import Any

from aos.errors import Unavailable

EVENT_BYTES_MAX = 256 * 1024 * 1024
"""The longest event that a client keeps, in bytes."""


class EventStream:
    """The events of one connection, each as the document of its ``data``."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, part: bytes) -> list[dict[str, Any]]:
        """Take a part of the body, and return the events that it completes. Comments count as none.

        Raises:
            Unavailable: The body is no stream of events, or one of them is too long.
        """
        *blocks, self._partial = (self._partial + part).split(b"\n\n")
        if len(self._partial) > EVENT_BYTES_MAX:
            raise Unavailable(f"the node sent an event of more than {EVENT_BYTES_MAX:,} bytes")
        return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> dict[str, Any] | None:
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
    if not lines:
        return None
    try:
        event = json.loads(b"\n".join(lines))
    except ValueError as error:
        raise Unavailable("the node sent an event that is no JSON") from error
    if not isinstance(event, dict):
        raise Unavailable("the node sent an event that is no object")
    return event
