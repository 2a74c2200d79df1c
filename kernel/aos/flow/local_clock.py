"""The virtual time of a local run, and the work that is due at a time."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aos.flow.declaring import Span
from aos.flow.flow_error import Critical
from aos.values.spelling import duration_ns

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND_NS: Final = 1000


@dataclass(slots=True)
class LocalClock:
    """``now_ns`` moves only to the time of due work, and by ``advance`` of the run."""

    now_ns: int
    _due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def after(self, delay_ns: int, work: Callable[[], None]) -> None:
        """Do work after a delay; of works that are due at one time, the first comes first."""
        self._count += 1
        heapq.heappush(self._due, (self.now_ns + max(delay_ns, 0), self._count, work))

    def due_ns(self) -> int | None:
        """The time of the next work; None if there is none."""
        return self._due[0][0] if self._due else None

    def work(self) -> Callable[[], None]:
        """Move to the next work, and return it."""
        at_ns, _, work = heapq.heappop(self._due)
        self.now_ns = max(self.now_ns, at_ns)
        return work

    def deadline_ns(self, time: Span | datetime) -> int:
        """The time until which an operation waits. Raises Critical ``duration`` (FL-42)."""
        if isinstance(time, datetime):
            return (time - _EPOCH) // timedelta(microseconds=1) * _MICROSECOND_NS
        span = span_ns(time)
        if span < 0 or self.now_ns + span >= 1 << 63:
            raise Critical("duration", "the duration is negative or too long")
        return self.now_ns + span


@dataclass(slots=True)
class LocalValues:
    """The argument of the function of ``cx.local``: a time, and random values that depend only on
    the path of the operation."""

    path: str
    now: datetime
    _count: int = 0

    def random(self, below: int | None = None) -> int:
        """An int of 64 bits, or one below a bound. Raises ValueError for a bound below 1."""
        if below is not None and below < 1:
            raise ValueError(f"random: expected a bound of at least 1, found {below}")
        number = int.from_bytes(self._bytes()[:8], "big")
        return number if below is None else number * below >> 64

    def uuid(self) -> str:
        """A UUID of version 4."""
        digits = bytearray(self._bytes()[:16])
        digits[6], digits[8] = digits[6] & 15 | 64, digits[8] & 63 | 128
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _bytes(self) -> bytes:
        self._count += 1
        return hashlib.sha256(f"{self.path}#{self._count}".encode()).digest()


def span_ns(span: Span) -> int:
    """A time span in ns. Raises ValueError for a text that is none."""
    if isinstance(span, timedelta):
        return span // timedelta(microseconds=1) * _MICROSECOND_NS
    ns = duration_ns(span)
    if ns is None:
        raise ValueError(f"a time span: expected a text such as 1m30s, found {span!r}")
    return ns


def as_datetime(ns: int) -> datetime:
    """A time in UTC, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // _MICROSECOND_NS)
