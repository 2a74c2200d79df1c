"""Follow the journal of a node: its server-sent events (spec/node-api.md, N-116), and how far a
client has come across its connections."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Self

from aos.client.node_steps import SILENCE_S, Steps, Words, ends_before, newest_record, read_seq
from aos.errors import Unavailable
from aos.read.views.record_view import Document

EVENT_BYTES_MAX = 256 * 1024 * 1024
"""The longest event that a client keeps, in bytes."""


@dataclass(slots=True, kw_only=True)
class FollowedNode:
    """The client has all selected records up to ``after_seq``. It may end as idle only from
    ``target`` on, the newest of them when it began: a search for rare records takes long."""

    after_seq: int
    target: int
    selected: Words
    idle_s: float | None
    heard_s: float

    @classmethod
    def begin(cls, after_seq: int | None, selected: Words, idle_s: float | None) -> Steps[Self]:
        """Begin after a record, by default after the last one.

        Raises:
            BadUsage: The journal ends before ``after_seq``, or the query names nothing that is
                known.
        """
        last = yield from read_seq()
        if after_seq is None:
            after_seq = last
        if after_seq > last:
            raise ends_before(after_seq, last)
        target = 0 if idle_s is None else (yield from newest_record(selected))
        return cls(
            after_seq=after_seq,
            target=target,
            selected=selected,
            idle_s=idle_s,
            heard_s=time.monotonic(),
        )

    def words(self) -> Words:
        """The query of the next connection."""
        return [("from", str(self.after_seq + 1)), *self.selected]

    def advance(self, record: Document) -> None:
        """The caller gets this record."""
        self.after_seq = record["seq"]
        self.heard_s = time.monotonic()

    @property
    def may_idle(self) -> bool:
        """Whether silence may end it."""
        return self.idle_s is not None and self.after_seq >= self.target

    @property
    def is_over(self) -> bool:
        """Whether the client has been idle for long enough."""
        if self.idle_s is None or not self.may_idle:
            return False
        return time.monotonic() - self.heard_s >= self.idle_s

    def patience_s(self) -> float:
        """Seconds of silence after which the connection is given up."""
        if self.idle_s is None or not self.may_idle:
            return SILENCE_S
        return min(SILENCE_S, max(0.0, self.heard_s + self.idle_s - time.monotonic()))


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
        return [event for block in blocks if (event := _event_document(block)) is not None]


def _event_document(block: bytes) -> dict[str, Any] | None:
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
