"""Cron texts around changes of the clock, against an oracle that walks over each minute (X-38)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import resources
from itertools import pairwise, takewhile
from typing import Final

import pytest

from aos.manifest.cron_times import (
    LAST_NS,
    OUT_OF_RANGE,
    CronProblem,
    next_times,
    times,
    zone,
    zone_names,
)
from tests.tools import long_form

NS: Final = 10**9
MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 24 * HOUR
BEGIN: Final = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
END: Final = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())
AROUND: Final = 5 * HOUR
"""How much of the time before and after a change is walked over, and the change itself."""

UNUSUAL: Final = {
    "Australia/Lord_Howe": "2026",  # half an hour, twice a year
    "Asia/Pyongyang": "2018",
    "America/Caracas": "2016",
    "Pacific/Apia": "2011",  # one day was skipped
    "Antarctica/Troll": "2026",  # two hours
    "Antarctica/Casey": "2010",  # three hours back
    "Africa/Casablanca": "2025",  # back for Ramadan
    "America/St_Johns": "2010",  # at one minute past midnight
    "Europe/Berlin": "2026",
}
"""Zones and years of the short form."""


def offset(place: tzinfo, at_s: int) -> int:
    found = datetime.fromtimestamp(at_s, place).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def wall(place: tzinfo, at_s: int) -> datetime:
    """What the clock on the wall shows."""
    return datetime.fromtimestamp(at_s, place).replace(tzinfo=None)


def year(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y")


def changes(place: tzinfo) -> Iterator[int]:
    """The minutes of 2000 to 2037 in which the clock shows something else than one minute more."""
    before = offset(place, BEGIN)
    for hour_s in range(BEGIN, END, 12 * HOUR):
        after = offset(place, hour_s + 12 * HOUR)
        if before != after:
            for at_s in range(hour_s, hour_s + 12 * HOUR, MINUTE):
                if offset(place, at_s) != offset(place, at_s + MINUTE):
                    yield at_s + MINUTE
        before = after


def fits(field: str, value: int) -> bool:
    """Whether a field of a cron text has a value."""
    for part in field.split(","):
        base, _, step = part.partition("/")
        begin, _, end = base.partition("-")
        lowest = 0 if base == "*" else int(begin)
        highest = 99 if base == "*" or (step and not end) else int(end or begin)
        if value in range(lowest, highest + 1, int(step or 1)):
            return True
    return False


def shows(text: str, clock: datetime) -> bool:
    minute, hour, day, month, weekday = text.split()
    return (
        fits(minute, clock.minute)
        and fits(hour, clock.hour)
        and fits(day, clock.day)
        and fits(month, clock.month)
        and fits(weekday, clock.isoweekday() % 7)
    )


def walked(text: str, minutes: list[tuple[int, datetime]]) -> list[int]:
    """The times of a text among minutes: the rule X-38, word for word."""
    if any(field.startswith("*") for field in text.split()[:2]):
        return [at_s for at_s, clock in minutes if shows(text, clock)]
    found, shown = set(), set()
    for (_, before), (at_s, clock) in pairwise(minutes):
        skipped = before + timedelta(minutes=1)
        while skipped < clock:
            if shows(text, skipped):
                found.add(at_s)
            skipped += timedelta(minutes=1)
        if clock not in shown and shows(text, clock):
            found.add(at_s)
        shown |= {before, clock}
    return sorted(found)


def texts(before: datetime, after: datetime) -> list[str]:
    """Cron texts whose times are near a change from one local time to another."""
    hours = sorted({before.hour, after.hour, (after.hour + 1) % 24})
    listed = ",".join(map(str, hours))
    return [
        "0 */2 * * *", "0 */6 * * *", "*/20 * * * *", f"*/20 {after.hour} * * *", "7 * * * *",
        f"* {listed} 1-31/2 * *", f"{after.minute} {after.hour} * * *",
        f"{before.minute} {before.hour} * * *", f"{(after.minute + 30) % 60} {listed} * * *",
        f"0-59/20 {listed} * * *", f"5/20 {before.hour} * * *",
        f"30 0-23/2 * * {after.isoweekday() % 7}",
    ]  # fmt: skip


def check(tz: str, change_s: int) -> None:
    place = zone(tz)
    shift = abs(offset(place, change_s) - offset(place, change_s - MINUTE))
    begin, end = change_s - AROUND - shift, change_s + AROUND + shift
    minutes = [(at_s, wall(place, at_s)) for at_s in range(begin, end + 1, MINUTE)]
    for text in texts(wall(place, change_s - MINUTE), wall(place, change_s)):
        expected = [at_s for at_s in walked(text, minutes) if at_s > begin]
        found = takewhile(lambda ns: ns <= end * NS, times(text, tz, begin * NS))
        assert [ns // NS for ns in found] == expected, (tz, text, wall(place, change_s))


def different_zones() -> list[str]:
    """One name for each set of rules: many zones are other names of the same one."""
    found: dict[bytes, str] = {}
    for name in sorted(zone_names()):
        rules = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
        found.setdefault(rules, name)
    return sorted(found.values())


@pytest.mark.long
@pytest.mark.parametrize("tz", different_zones() if long_form() else sorted(UNUSUAL))
def test_times_around_changes_of_the_clock_are_those_of_a_walk(tz: str) -> None:
    """All changes of all zones in the long form; some unusual ones in the short form."""
    found = [each for each in changes(zone(tz)) if long_form() or year(each) == UNUSUAL[tz]]
    assert found or long_form()
    for change_s in found:
        check(tz, change_s)


def test_half_an_hour_back_loses_no_time() -> None:
    """X-38: the examples of Lord Howe on 2026-04-05, and of Pyongyang on 2018-05-05."""
    lord_howe = "Australia/Lord_Howe"
    evening = int(datetime.fromisoformat("2026-04-04T23:50+11:00").timestamp()) * NS

    def local(text: str, tz: str, after_ns: int, count: int) -> list[str]:
        return [
            datetime.fromtimestamp(ns // NS, zone(tz)).strftime("%H:%M")
            for ns in next_times(text, tz, after_ns, count)
        ]

    assert local("0 */2 * * *", lord_howe, evening, 3) == ["00:00", "02:00", "04:00"]
    assert local("0 */6 * * *", lord_howe, evening, 3) == ["00:00", "06:00", "12:00"]
    assert local("*/20 2 * * *", lord_howe, evening, 3) == ["02:00", "02:20", "02:40"]
    pyongyang = int(datetime.fromisoformat("2018-05-04T22:50+08:30").timestamp()) * NS
    assert local("0 */3 * * *", "Asia/Pyongyang", pyongyang, 3) == ["00:00", "03:00", "06:00"]


def test_no_time_is_later_than_a_time_can_be() -> None:
    """X-36, X-39"""
    last = next_times("0 0 * * *", "UTC", LAST_NS - 3 * DAY * NS, 256)
    assert len(last) == 3
    assert last[-1] <= LAST_NS

    for text in ("0 0 * * *", "0 0 29 2 *"):
        with pytest.raises(CronProblem) as refused:
            next_times(text, "Europe/Berlin", LAST_NS - NS, 1)
        assert refused.value.code == OUT_OF_RANGE
