"""The bound on the worlds that a page keeps open (spec/page.md, PG-107)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.node import kept_index
from aos.page.page_world import PageWorld
from aos.page.page_worlds import OPEN_MAX
from tests.copies import copied
from tests.own_cache import use_own_cache
from tests.page.browser import Browser
from tests.page.test_live_stream import Watched

WORLDS = 5
MOST = 2


@pytest.fixture
def folders(lived_in: Path, tmp_path: Path) -> list[Path]:
    return [copied(lived_in, tmp_path / f"world-{number}") for number in range(WORLDS)]


@pytest.fixture
def browser(folders: list[Path]) -> Iterator[Browser]:
    browser = Browser(*folders, open_max=MOST)
    yield browser
    browser.close()


def worlds_of(browser: Browser) -> list[PageWorld]:
    return list(browser.worlds._worlds.values())


def open_ones(browser: Browser) -> list[int]:
    return [number for number, each in enumerate(worlds_of(browser)) if each.is_open]


def look(browser: Browser, number: int, page: str = "") -> bytes:
    found = browser.get(f"/w/{worlds_of(browser)[number].slug}/{page}")
    assert found.status_code == 200, found.text
    return found.content


def test_the_world_that_was_used_least_recently_is_closed_and_opened_again(
    browser: Browser,
) -> None:
    """PG-107: with its reader processes; a later request finds it as it was."""
    assert OPEN_MAX == 16
    first = look(browser, 0, "cells.json")
    readers = worlds_of(browser)[0]._readers
    assert readers is not None
    [process] = readers._idle
    look(browser, 1)
    assert open_ones(browser) == [0, 1]
    look(browser, 0)

    look(browser, 2)
    assert open_ones(browser) == [0, 2]
    look(browser, 3)
    assert open_ones(browser) == [2, 3]
    assert process.returncode is not None, "its reader process has ended"

    assert look(browser, 0, "cells.json") == first
    assert open_ones(browser) == [0, 3]


def test_the_list_of_worlds_opens_all_of_them_and_closes_none_that_is_looked_at(
    browser: Browser,
) -> None:
    """PG-7, PG-107"""
    look(browser, 1)
    assert [each["problem"] for each in browser.get("/.json").json()["worlds"]] == [None] * WORLDS
    assert len(open_ones(browser)) == MOST
    assert 1 in open_ones(browser)
    look(browser, 4)
    assert open_ones(browser) == [1, 4]


def test_a_world_with_a_live_page_stays_open(browser: Browser) -> None:
    """PG-107, PG-120: until its stream ends."""
    slug = worlds_of(browser)[0].slug
    stream = Watched(browser, f"/w/{slug}/live")
    stream.until(lambda: bool(stream.events))
    for number in (1, 2, 3):
        look(browser, number)
        assert open_ones(browser) == [0, number]
    stream.leave()
    look(browser, 4)
    look(browser, 1)
    assert open_ones(browser) == [1, 4]


def test_more_worlds_than_the_bound_are_open_only_while_they_are_in_use(browser: Browser) -> None:
    """PG-107"""
    streams = [Watched(browser, f"/w/{each.slug}/live") for each in worlds_of(browser)[:4]]
    streams[-1].until(lambda: all(each.events for each in streams))
    assert open_ones(browser) == [0, 1, 2, 3]
    for stream in streams[:3]:
        stream.leave()
    assert len(open_ones(browser)) == MOST
    assert 3 in open_ones(browser)
    streams[3].leave()


def test_requests_in_any_order_are_answered_and_leave_no_more_open(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-107: worlds with an index, requests at the same time, and some that are given up."""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    use_own_cache(monkeypatch, worlds_of(browser)[0].user_path.parent / "cache")
    chosen = random.Random("open worlds")
    pages = ("journal.json?limit=3", "cells.json?limit=3", "", "live.json")

    async def visit(number: int, page: str, *, gives_up: bool) -> None:
        slug = worlds_of(browser)[number].slug
        asking = asyncio.create_task(browser._ask("GET", f"/w/{slug}/{page}", {}))
        if gives_up:
            await asyncio.wait({asking}, timeout=chosen.random() / 20)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return
        answer = await asking
        assert answer.status_code == 200, answer.text

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(40):
                number, page = chosen.randrange(WORLDS), chosen.choice(pages)
                group.create_task(visit(number, page, gives_up=chosen.random() < 0.3))
                await asyncio.sleep(chosen.random() / 50)

    browser._runner.run(all_of_them())

    assert len(open_ones(browser)) <= MOST
    assert [each.uses for each in worlds_of(browser)] == [0] * WORLDS
    for number in range(WORLDS):
        look(browser, number, "cells.json")
