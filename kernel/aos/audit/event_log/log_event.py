"""The event and the change of an object that every format of an event log is written from
(spec/exports.md, EX-20 to EX-29)."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

Scalar: TypeAlias = str | int | bool

CELL: Final = 0
INTENT: Final = 1
WORLD: Final = 2
"""The kinds of objects, in the order in which they are written."""

WORLD_TYPE: Final = "world"

_SECOND: Final = 10**9
_YEAR_10000: Final = 253_402_300_800


class LogLink(NamedTuple):
    """An object that an event names, and why: ``qualifier`` is one of EX-24. ``key`` tells the
    object from others of its kind and type: the CBOR of a cell's key, or an intent's hash."""

    kind: int
    type: str
    key: bytes
    id: str
    qualifier: str


class LogEvent(NamedTuple):
    """Event ``event_index`` of record ``seq``. ``activity`` is its type."""

    seq: int
    event_index: int
    time_ns: int
    activity: str
    links: tuple[LogLink, ...]
    attributes: tuple[tuple[str, Scalar], ...] = ()

    @property
    def id(self) -> str:
        """Its name in the log. The order of the names as text is that of the journal."""
        return f"{self.seq:012}-{self.event_index:04}"


class Move(NamedTuple):
    """One effect of a record on one object, for ``object_moves``.

    ``group`` is a cell's workflow, else empty. The meaning of ``word`` and ``extra`` depends on
    ``op``: see ``CellStatuses`` and ``intent_statuses``.
    """

    kind: int
    group: str
    key: bytes
    time_ns: int
    op: str
    word: str | None = None
    extra: int | str | None = None


def iso_time(ns: int) -> str:
    """Return a time in RFC 3339, UTC, with microseconds, which every reader of logs takes."""
    seconds, fraction_ns = divmod(min(max(ns, 0), _YEAR_10000 * _SECOND - 1), _SECOND)
    return f"{_second(seconds)}.{fraction_ns // 1000:06}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
