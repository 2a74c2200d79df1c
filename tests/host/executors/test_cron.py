"""``sys/cron.next@1`` against a naive list of minutes (X-36 to X-39)."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from aos.host.door.writer import open_writer
from aos.host.executors.cron import carry_out
from aos.host.folder.making import init_world
from aos.manifest.cron_times import (
    CRON_INVALID,
    LAST_NS,
    OUT_OF_RANGE,
    ZONE_UNKNOWN,
    CronProblem,
    next_times,
    release,
    times,
    zone,
    zone_names,
)
from aos.manifest.names import CRON
from aos.values.cbor import Value, decode_record, encode
from tests.cli.shell import here
from tests.host.puppet import asks_for, do, manifest
from tests.run_seed import in_turns

NS: Final = 10**9
ZONES: Final = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
)  # fmt: skip


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * NS


def local(found: int, tz: str) -> str:
    return datetime.fromtimestamp(found // NS, zone(tz)).isoformat()


def naive(minute: int, hour: int, tz: str, years: range) -> list[int]:
    """The times of ``minute hour * * *``, by walking over the days: a local time that does not
    exist is the first one that does; one that comes twice is the first of the two."""
    place, found = ZoneInfo(tz), []
    day = datetime(years.start, 1, 1)  # noqa: DTZ001  # of any place
    while day.year in years:
        wanted = day.replace(hour=hour, minute=minute, tzinfo=place, fold=0)
        real = wanted.astimezone(UTC)
        while real.astimezone(place).replace(tzinfo=None) < wanted.replace(tzinfo=None):
            real += timedelta(minutes=1)
        if real.astimezone(place).replace(tzinfo=None) != wanted.replace(tzinfo=None):
            # The gap: go back to its end.
            real = wanted.astimezone(UTC)
            while (
                real.astimezone(place).utcoffset()
                == (real - timedelta(minutes=1)).astimezone(place).utcoffset()
            ):
                real -= timedelta(minutes=1)
        found.append(int(real.timestamp()) * NS)
        day += timedelta(days=1)
    return found


@pytest.mark.long
@pytest.mark.parametrize("tz", in_turns(3, ZONES))
@pytest.mark.parametrize(("minute", "hour"), [(30, 2), (0, 0), (30, 1), (15, 3), (59, 23)])
def test_daily_times_over_ten_years_are_those_of_a_naive_list(
    tz: str, minute: int, hour: int
) -> None:
    expected = naive(minute, hour, tz, range(2024, 2034))
    found = []
    for each in times(f"{minute} {hour} * * *", tz, expected[0] - 1):
        if each > expected[-1]:
            break
        found.append(each)

    wrong = [(local(a, tz), local(b, tz)) for a, b in zip(found, expected, strict=True) if a != b]
    assert wrong == []


def test_both_changes_of_the_clock_in_berlin() -> None:
    spring = next_times("30 2 * * *", "Europe/Berlin", at("2026-03-28T12:00+01:00"), 2)
    autumn = next_times("30 2 * * *", "Europe/Berlin", at("2026-10-24T12:00+02:00"), 2)
    often = next_times("*/30 * * * *", "Europe/Berlin", at("2026-10-25T01:30+02:00"), 5)

    assert [local(each, "Europe/Berlin") for each in spring] == [
        "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00",
    ]  # fmt: skip
    assert [local(each, "Europe/Berlin") for each in autumn] == [
        "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00",
    ]  # fmt: skip
    assert [local(each, "Europe/Berlin")[11:22] for each in often] == [
        "02:00:00+02", "02:30:00+02", "02:00:00+01", "02:30:00+01", "03:00:00+01",
    ]  # fmt: skip


def test_a_time_is_after_the_one_that_was_given() -> None:
    due = at("2026-01-01T00:00+00:00")

    assert next_times("0 0 * * *", "UTC", due - 1, 1) == [due]
    assert next_times("0 0 * * *", "UTC", due, 1) == [due + 86_400 * NS]
    assert next_times("0 0 29 2 *", "UTC", due, 2) == [
        at("2028-02-29T00:00+00:00"), at("2032-02-29T00:00+00:00"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "cron",
    ["", "x", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "0 0 30 2 *",
     "0 0 31 2,4,6,9,11 *", "1-0 * * * *", "*/0 * * * *", "* * * * 8", "٣ * * * *", "@daily",
     "* * * * *" + ",1" * 200, "0 0 31 2 L", "*\x00 * * * *"],
)  # fmt: skip
def test_a_text_that_is_none_or_never_fires_is_refused_soon(cron: str) -> None:
    began = time.thread_time()
    with pytest.raises(CronProblem) as refused:
        next_times(cron, "Europe/Berlin", 0, 1)

    assert refused.value.code == CRON_INVALID
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "tz", ["", "Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "europe/berlin", "CET+1"]
)
def test_an_unknown_time_zone_is_refused(tz: str) -> None:
    with pytest.raises(CronProblem) as refused:
        next_times("0 0 * * *", tz, 0, 1)

    assert refused.value.code == ZONE_UNKNOWN


@pytest.mark.parametrize(("after_ns", "count"), [(0, 0), (0, 257), (LAST_NS + 1, 1), (-1, 1)])
def test_numbers_out_of_range_are_refused(after_ns: int, count: int) -> None:
    with pytest.raises(CronProblem) as refused:
        next_times("0 0 * * *", "UTC", after_ns, count)

    assert refused.value.code == OUT_OF_RANGE


def test_the_receipt_names_the_release_of_the_rules() -> None:
    asked: dict[str | int, Value] = {
        "cron": "0 0 * * *", "tz": "Asia/Tokyo", "after_ns": 0, "count": 2,
    }  # fmt: skip

    done = carry_out(encode(asked))
    refused = carry_out(encode({**asked, "tz": "Mars"}))

    assert decode_record(done.payload) == {
        "times": [54_000 * NS, 140_400 * NS], "tzdata": release(),
    }  # fmt: skip
    assert (done.status, refused.status) == ("ok", "error")
    assert re.fullmatch(r"20[0-9]{2}[a-z]", release())
    assert len(zone_names()) > 400


def test_a_workflow_gets_its_times_from_a_world_that_runs(tmp_path: Path) -> None:
    """From the command line, with the executors of ``aos run``; a replay asks no executor again."""
    path = tmp_path / "world"
    init_world(path)
    asked = {"cron": "0 9 * * MON", "tz": "Europe/Paris", "after_ns": 0, "count": 2}
    wrong = {**asked, "tz": "Europe/Atlantis"}
    with open_writer(path) as writer:
        writer.apply(manifest(effects=(CRON,)))
        list(writer.send([do("a", asks_for((CRON, asked), (CRON, wrong)))]))

    assert here("run", "--until-idle", "--world", path).code == 0
    rows = here("inspect", "intents", "--status", "settled", "--json", "--world", path).json
    assert sorted(each["receipt_status"] for each in rows["intents"]) == ["error", "ok"]
    [found] = [
        each["payload"]
        for each in here("inspect", "journal", "--kind", "receipt", "--json", "--world", path).lines
        if each["status"] == "ok"
    ]
    assert found == {"times": [374_400 * NS, 979_200 * NS], "tzdata": release()}
    replayed = here("replay", "--world", path)
    assert (replayed.code, "byte-identical" in replayed.out) == (0, True)
