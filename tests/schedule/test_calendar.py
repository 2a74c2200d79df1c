"""Schedules over four years, or ten in the long form, in five time zones, with crashes and outages,
against a naive list of times (SC-3, SC-10)."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.host.executors.test_cron import ZONES, naive
from tests.run_seed import rotated
from tests.schedule.stage import DAY, HOUR, MINUTE, SECOND, Stage, sweep
from tests.tools import long_form

YEARS: Final = range(2024, 2035)
END: Final = int(datetime(2034 if long_form() else 2028, 1, 1, tzinfo=UTC).timestamp()) * SECOND
CATCHUP: Final = 6 * HOUR


def text(ns: int) -> str:
    return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.long
@pytest.mark.parametrize("tz", rotated(ZONES))
def test_each_due_time_is_an_event_once_or_is_counted_as_skipped(tz: str) -> None:
    chance = random.Random(f"{tz} 2")
    times = naive(30, 2, tz, YEARS)
    stage = Stage(sweep(tz=tz, catchup_ms=CATCHUP // 10**6), now="2024-01-01T00:00:00Z")
    expected: list[str] = []
    made_up = skipped = snapshots = 0
    began = stage.world.now_ns
    while (now := stage.world.now_ns) < END:
        is_outage = chance.random() < 0.3
        length = chance.choice((MINUTE // 2, HOUR, 5 * HOUR, DAY, 9 * DAY, 40 * DAY))
        length = chance.randrange(1, length)
        after = min(now + length, END)
        for due in (each for each in times if now < each <= after):
            late = after - due if is_outage else 0
            if late > MINUTE and late > CATCHUP:
                skipped += 1
            else:
                expected.append(text(due))
                made_up += late > MINUTE
        if is_outage:
            stage.jump(after - now, crash=chance.random() < 0.1)
        else:
            stage.world.advance(after - now)
        if len(expected) > 400 * (snapshots + 1):
            snapshots += 1
            stage.world.snapshot()

    found = stage.show()
    assert stage.due() == expected
    assert (found["runs"], found["made_up"], found["skipped"]) == (
        len(expected), made_up, skipped,
    )  # fmt: skip
    assert len(expected) + skipped == sum(began < each <= END for each in times)
    assert made_up > (10 if long_form() else 2)
    assert skipped > (100 if long_form() else 20)
    stage.world.close()
