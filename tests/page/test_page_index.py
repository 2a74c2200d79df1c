"""The index that the page keeps, and pages without it (spec/page.md, PG-100 to PG-103)."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.node import kept_index, reading
from aos.page import page_search
from aos.page.page_world import PageWorld
from aos.read.index.index_file import INDEX_NAME
from tests.own_cache import use_own_cache
from tests.page.browser import Browser
from tests.page.test_page_safety import hashes

QUERIES = (
    "cells.json", "cells.json?sort=activity&limit=3", "cells.json?key_prefix=a&limit=2&offset=1",
    "cells.json?status=waiting&sort=age", "intents.json?status=settled", "trace/4.json",
    "intents.json?status=ok", "intents.json?status=error&limit=1",
    "journal.json?workflow=host/puppet@1&key=ada",
    "journal.json?workflow=puppet&key=wait&from=1&kind=step",
    "journal.json?kind=manifest", "journal.json?kind=manifest&limit=1",
    "journal.json?kind=manifest&to=5",
)  # fmt: skip
"""Documents in which nothing depends on now."""


@pytest.fixture
def indexed(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Browser, PageWorld]]:
    """A page that keeps an index of a small world, too."""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    monkeypatch.setattr(kept_index, "PAUSE_S", 0.05)
    use_own_cache(monkeypatch, tmp_path / "cache")
    browser = Browser(lived_in)
    [world] = browser.worlds._worlds.values()
    yield browser, world
    browser.close()


def wait_whole(browser: Browser, world: PageWorld) -> Path:
    browser.get("/")
    until_s = time.monotonic() + 120
    while world.index_folder is None:
        assert time.monotonic() < until_s, world.index()
        browser.wait(0.05)
    return world.index_folder


def documents(browser: Browser, world: PageWorld) -> list[bytes]:
    found = [browser.get(f"/w/{world.slug}/{query}") for query in QUERIES]
    assert {each.status_code for each in found} == {200}
    return [each.content for each in found]


def test_documents_are_the_same_with_the_index_and_the_world_is_not_written(
    indexed: tuple[Browser, PageWorld],
    lived_in: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PG-2, PG-100, IX-61"""
    browser, world = indexed
    before = hashes(lived_in)
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1_000_000)
    plain = Browser(lived_in)
    [other] = plain.worlds._worlds.values()
    expected = documents(plain, other)
    assert other.index() is None
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    folder = wait_whole(browser, world)
    assert folder.parent == tmp_path / "cache" / "index"

    found = documents(browser, world)

    assert found == expected
    plain.close()
    assert hashes(lived_in) == before
    page = browser.get(f"/w/{world.slug}/cells?sort=activity&limit=2")
    assert page.status_code == 200
    assert "index of this world" not in page.text


def test_the_search_finds_cells_by_the_index(
    indexed: tuple[Browser, PageWorld], lived_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-105"""
    browser, world = indexed
    plain = [names(browser, world, text) for text in ("b", "a", "zoe", "<script>")]
    wait_whole(browser, world)

    assert [names(browser, world, text) for text in ("b", "a", "zoe", "<script>")] == plain

    monkeypatch.setattr(page_search, "_cells", lambda *_: pytest.fail("every cell was read"))
    assert len(names(browser, world, "b")) > 1


def names(browser: Browser, world: PageWorld, text: str) -> list[str]:
    found = browser.get(f"/w/{world.slug}/search.json?q={text}").json()
    assert found["is_whole"]
    return [f"{each['what']} {each['name']} {each['address']}" for each in found["found"]]


def test_pages_of_lists_continue_after_the_last_row(indexed: tuple[Browser, PageWorld]) -> None:
    """PG-101: with the index and without it, each cell is on one page."""
    browser, world = indexed
    wait_whole(browser, world)
    for order in ("key", "activity", "age"):
        address, keys = f"/w/{world.slug}/cells.json?limit=3&sort={order}", []
        after: str | None = None
        while True:
            more = {} if after is None else {"after": after}
            query = "".join(f"&{name}={text.replace(' ', '+')}" for name, text in more.items())
            found = browser.get(address + query).json()
            keys += [each["key_cbor"] for each in found["cells"]]
            after = found["next_after"]
            if after is None:
                break
        assert len(keys) == len(set(keys)) == found["total"] > 6
    page = browser.get(f"/w/{world.slug}/cells?limit=3").text
    assert 'rel="next"' in page
    assert "after=0+" in page


def test_a_page_says_how_far_the_index_is(
    indexed: tuple[Browser, PageWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-102"""
    browser, world = indexed
    wait_whole(browser, world)
    assert world._index is not None
    monkeypatch.setattr(
        world._index, "_progress", {"folder": "/x", "record": 5, "last": 1200, "cells_left": 3}
    )
    monkeypatch.setattr(world._index, "_was_whole", False)
    for path in ("cells", "intents", "trace/4", "journal?workflow=puppet&key=ada"):
        text = browser.get(f"/w/{world.slug}/{path}").text
        assert "The index of this world: record 5 of 1,200." in text, path
    for path in ("faults", "journal"):
        assert "The index" not in browser.get(f"/w/{world.slug}/{path}").text


def test_a_list_that_takes_too_long_says_how_far_the_index_is(
    indexed: tuple[Browser, PageWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-8, PG-102: with the index it will not take so long."""
    browser, world = indexed
    wait_whole(browser, world)
    assert world._index is not None
    monkeypatch.setattr(
        world._index, "_progress", {"folder": "/x", "record": 5, "last": 1200, "cells_left": 3}
    )
    monkeypatch.setattr(world._index, "_was_whole", False)
    seen = iter(range(10**6))
    monkeypatch.setattr(reading.ListTime.__init__, "__defaults__", (0.0, lambda: float(next(seen))))

    for path in ("cells", "intents", "faults", "journal"):
        answer = browser.ask("GET", f"/w/{world.slug}/{path}")
        assert answer.status_code == 503, path
        assert "narrow it with a filter" in answer.text
        assert "The index of this world: record 5 of 1,200." in answer.text, path
    absent = browser.get(f"/w/{world.slug}/record/9999")
    assert absent.status_code == 404
    assert "The index" not in absent.text


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_pages_are_served_whatever_happens_to_the_index(
    indexed: tuple[Browser, PageWorld], damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """PG-103: while it is open, and by the next page after that."""
    browser, world = indexed
    folder = wait_whole(browser, world)
    expected = documents(browser, world)
    file = folder / INDEX_NAME
    data = file.read_bytes()
    match damage:
        case "cut":
            os.truncate(file, 8192)
        case "flipped":
            file.write_bytes(bytes(each ^ 0x55 for each in data))
        case "gone":
            shutil.rmtree(folder)

    assert documents(browser, world) == expected


def test_a_process_of_the_index_that_is_killed_is_started_again(
    indexed: tuple[Browser, PageWorld], capfd: pytest.CaptureFixture[str]
) -> None:
    """PG-103"""
    browser, world = indexed
    wait_whole(browser, world)
    expected = documents(browser, world)
    assert world._index is not None
    assert world._index._process is not None
    os.kill(world._index._process.pid, signal.SIGKILL)
    browser.wait(0.02)

    assert documents(browser, world) == expected

    # The folder is named until the page has seen that the process is gone.
    errors, until_s = "", time.monotonic() + 120
    while "started again" not in (errors := errors + capfd.readouterr().err):
        assert time.monotonic() < until_s, errors
        browser.wait(0.05)
    wait_whole(browser, world)
    assert documents(browser, world) == expected


def test_a_cache_that_cannot_be_used_is_a_sentence_on_the_page(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-102, PG-103"""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    use_own_cache(monkeypatch, tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "index").write_text("no folder")
    browser = Browser(lived_in)
    [world] = browser.worlds._worlds.values()
    browser.get("/")
    until_s = time.monotonic() + 120
    while not (world.index() or {}).get("problem"):
        assert time.monotonic() < until_s
        browser.wait(0.05)

    page = browser.get(f"/w/{world.slug}/cells")

    assert page.status_code == 200
    assert "This world has no index now: " in page.text
    assert "the cache of indexes cannot be used" in page.text
    browser.close()
