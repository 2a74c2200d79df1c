"""Cron texts: which are valid, and their times in a time zone (X-37, X-38).

A manifest's schedules are checked with this, and ``sys/cron.next@1`` answers by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
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
    with file.open("rb") as opened:
        return ZoneInfo.from_file(opened, key=name)


def release() -> str:
    """The release of the time zones' rules, such as 2026a."""
    return str(tzdata.IANA_VERSION)


def times(cron: str, tz: str, after_ns: int) -> Iterator[int]:
    """Yield the times of a cron text (X-37) after a time, in ns since 1970, ascending. Where the
    clock changes, they are those of X-38.

    Raises:
        CronProblem: The text or the time zone is invalid, or the text never fires.
    """
    place = zone(tz)
    if not 0 <= after_ns <= LAST_NS:
        raise CronProblem(OUT_OF_RANGE, "after_ns: expected a time before the year 2262")
    if len(cron) > CHARS_MAX or len(cron.split()) != FIELDS or not cron.isascii():
        raise _invalid(cron)
    try:
        found = CronSim(cron, datetime.fromtimestamp(after_ns // _NS, place))
    except CronSimError as error:
        raise _invalid(cron) from error
    last = after_ns
    any_yet = False
    for each in found:
        at_ns = int(each.astimezone(UTC).timestamp()) * _NS
        # A local time that does not exist moves to one that does, which may have fired already.
        if at_ns > last:
            last, any_yet = at_ns, True
            yield at_ns
    if not any_yet:
        raise CronProblem(CRON_INVALID, f"{excerpt(cron)!r} never fires")


def _invalid(cron: str) -> CronProblem:
    return CronProblem(
        CRON_INVALID,
        "expected a cron text of five fields (minute, hour, day of the month, month, day of the "
        f"week), such as '30 2 * * *', found {excerpt(cron)!r}",
    )


def next_times(cron: str, tz: str, after_ns: int, count: int) -> list[int]:
    """The first ``count`` times (1 to 256) after a time. Raises CronProblem as ``times``."""
    if not 1 <= count <= TIMES_MAX:
        raise CronProblem(OUT_OF_RANGE, f"count: expected 1 to {TIMES_MAX}, found {count}")
    found = []
    for at_ns in times(cron, tz, after_ns):
        found.append(at_ns)
        if len(found) == count:
            break
    return found
