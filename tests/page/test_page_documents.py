"""A page is the view of a command's document (spec/page.md, PG-3, PG-4, PG-6)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from aos.page.page_worlds import PageWorlds
from aos_cli.main import run_command
from tests.fake_clock import set_machine_clock
from tests.page.browser import Browser, ReadersHere, read_page
from tests.run_seed import run_seed
from tests.tools import long_form

NOW_NS = 1_900_000_000_000_000_000


@pytest.fixture
def still(page: Browser, lived_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and the commands read the same time."""
    page.get("/")
    [world] = page.worlds._worlds.values()
    set_machine_clock(monkeypatch, NOW_NS)
    monkeypatch.setattr(world, "_readers", ReadersHere(lived_in))


@pytest.mark.long
@pytest.mark.usefixtures("still")
def test_every_page_is_the_view_of_the_document_of_the_command_that_it_names(
    page: Browser, addresses: dict[str, str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """PG-3, PG-6: the whole world, by following every link from its overview."""
    kinds = set()
    capsysbinary.readouterr()
    for address in some_of_each_kind(addresses):
        path, _, query = address.partition("?")
        words = read_page(page.get(address)).command
        assert words is not None, address
        document = page.get(f"{path.rstrip('/')}.json" + (f"?{query}" if query else ""))
        assert page.get(address, accept="application/json").content == document.content

        assert run_command([*words[1:], "--json"]) == 0, words

        assert capsysbinary.readouterr().out == document.content, address
        kinds.add(tuple(words[1:3]) if words[1] != "trace" else ("trace",))
    assert kinds == {
        ("inspect", each)
        for each in (
            "world", "cells", "cell", "intents", "intent", "journal", "record", "faults",
            "manifest", "value",
        )
    } | {("trace",), ("gov", "list")}  # fmt: skip
    assert len(addresses) > 150


def some_of_each_kind(addresses: Iterable[str]) -> list[str]:
    """Of the pages whose paths begin with the same word, every third one, others each day; in the
    long form all."""
    kinds: dict[str, list[str]] = {}
    for address in addresses:
        path = address.partition("?")[0]
        if not path.endswith("/bytes"):
            word = "/".join(path.split("/")[:4])
            kinds.setdefault(word, []).append(address)
    step = 1 if long_form() else 3
    return [
        address
        for pages in kinds.values()
        for address in pages[run_seed() % min(step, len(pages)) :: step]
    ]


@pytest.mark.parametrize(
    "path",
    [
        "cells?status=failed", "cells?sort=age&limit=2", "cells?limit=3&offset=3",
        "cells?key_prefix=a&state=1", "cells?fault=trap", "cells?at=9",
        'cells?where=key ^= "a"', "intents?status=all&limit=5", "intents?effect=echo",
        "intents?status=ok", "journal?from=3&limit=4", "journal?kind=step&kind=event",
        "journal?workflow=puppet&key=ada", "journal?to=5", "faults?kind=trap", "manifest?at=9",
        "manifest/diff?since=3", "manifest/diff?since=3&at=9", "trace/4?follow_events=0",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("still")
def test_a_query_is_the_options_of_the_command(
    page: Browser, base: str, path: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """PG-6"""
    answer = page.get(base + path)
    assert answer.status_code == 200, answer.text
    words = read_page(answer).command
    assert words is not None
    capsysbinary.readouterr()
    before, _, query = path.partition("?")

    assert run_command([*words[1:], "--json"]) == 0, words

    document = page.get(f"{base}{before}.json?{query}")
    assert capsysbinary.readouterr().out == document.content


def test_long_documents_come_from_the_reader_processes_of_a_front(
    lived_in: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """PG-4: with real reader processes, for a document in which nothing depends on now."""
    browser = Browser(lived_in)
    try:
        [world] = browser.worlds._worlds.values()
        found = browser.get(f"/w/{world.slug}/cells.json")
        past = browser.get(f"/w/{world.slug}/cells.json?at=9")
    finally:
        browser.close()
    capsysbinary.readouterr()

    for answer, options in ((found, ()), (past, ("--at", "9"))):
        assert run_command(["inspect", "cells", "--json", "-w", str(lived_in), *options]) == 0
        assert capsysbinary.readouterr().out == answer.content


def test_two_worlds_with_one_id_have_addresses_of_their_own(lived_in: Path) -> None:
    """PG-5"""
    worlds = PageWorlds([lived_in, lived_in])
    worlds.locate()

    first, second = worlds._worlds

    assert second == f"{first}-2"
    assert len(first) == 12
