"""Records a minute on the page of a world (spec/page.md, PG-104)."""

from __future__ import annotations

import pytest

from aos.node import reading
from aos.page.page_additions import BAR_WIDTH, HEIGHT, LEAST, minutes_picture
from aos.read.views.journal_view import MINUTE_NS, MINUTES
from tests.page.browser import Browser


def test_each_minute_has_a_bar_at_its_place_and_of_its_height() -> None:
    """PG-104"""
    at = 1_000 * MINUTE_NS
    found = minutes_picture(
        [
            {"at_ns": at, "records": 1000},
            {"at_ns": at + 10 * MINUTE_NS, "records": 1},
            {"at_ns": at + 59 * MINUTE_NS, "records": 500},
        ]
    )

    assert found is not None
    assert [(each.x, each.height) for each in found.bars] == [
        (0, HEIGHT), (10 * BAR_WIDTH, LEAST), (59 * BAR_WIDTH, HEIGHT // 2),
    ]  # fmt: skip
    assert all(each.y + each.height == HEIGHT for each in found.bars)
    assert (found.records_max, found.total, found.width) == (1000, 1501, MINUTES * BAR_WIDTH)
    assert minutes_picture([]) is None


def test_the_page_of_a_small_world_counts_its_records(page: Browser, base: str) -> None:
    """PG-104: every record of a world that was made within the hour."""
    records = page.get(base + ".json").json()["journal"]["records"]
    text = page.get(base).text

    assert f"{records:,} records in the last hour" in text
    assert "<caption>Records a minute for the last hour" in text


def test_a_journal_that_takes_too_long_has_no_bars(
    page: Browser, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-104"""
    seen = iter(range(10**6))
    monkeypatch.setattr(reading.ListTime.__init__, "__defaults__", (0.0, lambda: float(next(seen))))

    answer = page.get(base)

    assert answer.status_code == 200
    assert "Records a minute" not in answer.text
