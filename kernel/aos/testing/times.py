"""Convert times and spans in a test to nanoseconds (spec/testing.md, T-4, T-13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from aos.errors import BadUsage, sentence
from aos.values.spelling import duration_ns, time_ns

Time: TypeAlias = str | int | datetime
"""RFC 3339 text, nanoseconds since 1970, or a datetime with a time zone."""

Span: TypeAlias = str | int | timedelta
"""Text such as ``1m30s`` or ``30d``, or nanoseconds."""

START: Final = "2024-01-01T00:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def read_time(time: Time) -> int:
    """Nanoseconds since 1970. Raises: BadUsage: It is not a time."""
    nanoseconds: int | None = None
    if isinstance(time, datetime):
        if time.tzinfo is not None:
            nanoseconds = (time - _EPOCH) // _MICROSECOND * 1_000
    elif isinstance(time, str):
        nanoseconds = time_ns(time)
    elif type(time) is int:
        nanoseconds = time
    if nanoseconds is None or not 0 <= nanoseconds < 2**63:
        raise BadUsage(
            sentence(
                "this is not a time",
                expected='RFC 3339 text ("2024-01-01T00:00:00Z"), ns since 1970, or a datetime '
                "with a zone",
                actual=repr(time),
            )
        )
    return nanoseconds


def read_span(span: Span) -> int:
    """Nanoseconds. Raises: BadUsage: It is not a span of time, or is negative."""
    nanoseconds: int | None = None
    if isinstance(span, timedelta):
        nanoseconds = span // _MICROSECOND * 1_000
    elif isinstance(span, str):
        nanoseconds = duration_ns(span)
    elif type(span) is int:
        nanoseconds = span
    if nanoseconds is None or not 0 <= nanoseconds < 2**63:
        raise BadUsage(
            sentence(
                "this is not a span of time",
                expected='text such as "1m30s" or "30d", ns, or a timedelta, not negative',
                actual=repr(span),
            )
        )
    return nanoseconds
