"""Cron texts: which are valid, and their times in a time zone (X-37, X-38).

A manifest's schedules are checked with this, and ``sys/cron.next@1`` answers by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

import tzdata
from cronsim import CronSim, CronSimError

from aos.errors import excerpt

CHARS_MAX: Final = 256
TIMES_MAX: Final = 256
FIELDS: Final = 5
LAST_NS: Final = 2**63 - 1
"""Times after this one, in the year 2262, cannot be asked for."""

CRON_INVALID: Final = "cron_invalid"
ZONE_UNKNOWN: Final = "time_zone_unknown"
OUT_OF_RANGE: Final = "out_of_range"

_NS: Final = 10**9
_HOUR_S: Final = 3_600
_CHANGE_HOURS_MAX: Final = 25
"""No clock is set back by more: an island that crosses the date line repeats a day."""


class CronProblem(Exception):
    """A question for times that has no answer. ``code`` is the receipt's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@cache
def zone_names() -> frozenset[str]:
    """The names of the time zones that the package tzdata has."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())


@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """The time zone of this name, by the rules of the package tzdata: those of the machine may be
    older. Raises CronProblem if there is none."""
    if name == "UTC":
        return UTC
    if name not in zone_names():
        raise CronProblem(
            ZONE_UNKNOWN, f"expected a time zone such as Europe/Berlin, found {excerpt(name)!r}"
        )
    file = resources.files("tzdata").joinpath("zoneinfo").joinpath(*name.split("/"))
    with file.open("rb") as zone_file:
        return ZoneInfo.from_file(zone_file, key=name)


def release() -> str:
    """The release of the time zones' rules, such as 2026a."""
    return str(tzdata.IANA_VERSION)


def times(cron: str, tz: str, after_ns: int) -> Iterator[int]:
    """Yield the times of a cron text (X-37) after a time, in ns since 1970, ascending, up to the
    last one that a ``time`` can hold. Where the clock changes, they are those of X-38.

    Raises:
        CronProblem: The text or the time zone is invalid, the text never fires, or not any more.
    """
    time_zone = zone(tz)
    if not 0 <= after_ns <= LAST_NS:
        raise _out_of_range("after_ns: expected a time before the year 2262")
    last_s, any_yet = after_ns // _NS, False
    for at_s in _seconds(cron, time_zone, last_s):
        if at_s * _NS > LAST_NS:
            if not any_yet:
                raise _out_of_range(f"{excerpt(cron)!r} has no time before the year 2262")
            return
        # Several local times that do not exist move to the same one that does.
        if at_s > last_s:
            last_s, any_yet = at_s, True
            yield at_s * _NS
    if not any_yet:
        raise CronProblem(CRON_INVALID, f"{excerpt(cron)!r} never fires")


def _seconds(cron: str, time_zone: tzinfo, after_s: int) -> Iterator[int]:
    """Yield the times of a cron text in seconds since 1970, ascending: all of those after
    ``after_s``, and perhaps some before."""
    local = datetime.fromtimestamp(after_s, time_zone).replace(tzinfo=None)
    counts_real_time = any(field.startswith("*") for field in cron.split()[:2])
    if counts_real_time:
        local -= _ahead(time_zone, after_s)
    try:
        # Time zones are no business of this iterator: it walks over local times as the clock on
        # the wall shows them, and all of them exist, once.
        local_times = _local_times(cron, local)
    except CronSimError as error:
        raise _invalid(cron) from error
    return (
        _each_time(local_times, time_zone)
        if counts_real_time
        else _first_times(local_times, time_zone)
    )


def _local_times(cron: str, start: datetime) -> CronSim:
    if len(cron) > CHARS_MAX or len(cron.split()) != FIELDS or not cron.isascii():
        raise _invalid(cron)
    return CronSim(cron, start - timedelta(minutes=1))


def _first_times(local_times: Iterable[datetime], time_zone: tzinfo) -> Iterator[int]:
    """The first time of each local time; the end of the gap for one that the clock skips."""
    for local in local_times:
        first_s, _ = _both_times(local, time_zone)
        yield first_s if _shows(first_s, local, time_zone) else _gap_end(local, time_zone)


def _each_time(local_times: Iterable[datetime], time_zone: tzinfo) -> Iterator[int]:
    """Each time at which the clock shows one of the local times: one that comes twice is there
    twice, one that the clock skips is not."""
    second: deque[int] = deque()
    """Times that a clock that was set back shows again. All of them come after those before."""
    for local in local_times:
        first_s, again_s = _both_times(local, time_zone)
        if not _shows(first_s, local, time_zone):
            continue
        while second and second[0] < first_s:
            yield second.popleft()
        yield first_s
        if again_s != first_s:
            second.append(again_s)
    yield from second


def _both_times(local: datetime, time_zone: tzinfo) -> tuple[int, int]:
    """When the clock shows a local time, and when it does again; the same time if it does not."""
    first = local.replace(tzinfo=time_zone, fold=0)
    return int(first.timestamp()), int(first.replace(fold=1).timestamp())


def _shows(at_s: int, local: datetime, time_zone: tzinfo) -> bool:
    return datetime.fromtimestamp(at_s, time_zone).replace(tzinfo=None) == local


def _gap_end(local: datetime, time_zone: tzinfo) -> int:
    """The first time after the gap in which a local time lies: the change of the clock."""
    after_s, before_s = _both_times(local, time_zone)
    offset = datetime.fromtimestamp(before_s, time_zone).utcoffset()
    while after_s - before_s > 1:
        middle_s = (before_s + after_s) // 2
        if datetime.fromtimestamp(middle_s, time_zone).utcoffset() == offset:
            before_s = middle_s
        else:
            after_s = middle_s
    return after_s


def _ahead(time_zone: tzinfo, at_s: int) -> timedelta:
    """By how much the clock will be set back within its longest change: local times of before may
    come again."""
    offsets = [
        datetime.fromtimestamp(at_s + hour * _HOUR_S, time_zone).utcoffset() or timedelta()
        for hour in range(_CHANGE_HOURS_MAX + 1)
    ]
    return offsets[0] - min(offsets)


def _out_of_range(message: str) -> CronProblem:
    return CronProblem(OUT_OF_RANGE, message)


def _invalid(cron: str) -> CronProblem:
    return CronProblem(
        CRON_INVALID,
        "expected a cron text of five fields (minute, hour, day of the month, month, day of the "
        f"week), such as '30 2 * * *', found {excerpt(cron)!r}",
    )


def next_times(cron: str, tz: str, after_ns: int, count: int) -> list[int]:
    """The first ``count`` times (1 to 256) after a time, or as many as ``times`` has. Raises
    CronProblem as ``times``."""
    if not 1 <= count <= TIMES_MAX:
        raise _out_of_range(f"count: expected 1 to {TIMES_MAX}, found {count}")
    times_ns = []
    for at_ns in times(cron, tz, after_ns):
        times_ns.append(at_ns)
        if len(times_ns) == count:
            break
    return times_ns
