"""The trace contexts in which clients send events (W3C Trace Context, ``traceparent``; N-84)."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final, TypeAlias

Caller: TypeAlias = tuple[bytes, bytes]
"""A trace and a span in it."""

CALLERS_MAX: Final = 10_000
"""Events whose callers are kept until their spans are exported."""

_VERSION_00: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


def read_traceparent(header: bytes | None) -> Caller | None:
    """The trace and the span of a header; None without one, or if it is invalid (then the
    specification says to ignore it)."""
    match = None if header is None else _VERSION_00.fullmatch(header)
    if match is None:
        return None
    trace, span = (bytes.fromhex(group.decode()) for group in match.groups())
    return (trace, span) if any(trace) and any(span) else None


class EventCallers:
    """The trace contexts of events, by the events' sequences; the latest ones."""

    def __init__(self) -> None:
        self._callers: OrderedDict[int, Caller] = OrderedDict()

    def add(self, seq: int, context: Caller) -> None:
        """Keep the context of an event. Only the first sender's counts."""
        self._callers.setdefault(seq, context)
        if len(self._callers) > CALLERS_MAX:
            self._callers.popitem(last=False)

    def take(self, seq: int) -> Caller | None:
        """Return and forget the context of an event."""
        return self._callers.pop(seq, None)
