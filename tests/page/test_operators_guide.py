"""The operators' guide names links and buttons that are there, and lead where it says
(spec/guides/operate.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aos.core.journal.inputs import PIN
from aos.host.door.writer import open_writer
from tests.cli.shell import in_silence
from tests.cli.test_commands import GARBAGE
from tests.copies import copied
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.test_node_process import started, wait_until
from tests.page.browser import read_page
from tests.page.clicks import Clicks
from tests.page.form_browser import FormBrowser, made
from tests.page.test_run_again import FUNCTIONS
from tests.page.test_send_form import do

__all__ = ["template", "world"]

GUIDE = Path(__file__).parents[2] / "spec" / "guides" / "operate.md"
KEYS = ("o-17", "o-18")
COMMANDS = ("cells retry", "cells unpin", "batch retry", "effects retry", "effects cancel")


def section() -> str:
    text = GUIDE.read_text("utf-8")
    begin = text.index("## The page, and an order that is stuck")
    return text[begin : text.index("\n## ", begin + 3)]


@pytest.fixture(scope="module")
def clicks(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clicks]:
    """A node whose orders have failed, are pinned, and wait for effects that are parked."""
    folder = tmp_path_factory.mktemp("guide")
    path = copied(template, folder / "orders")
    functions = folder / "functions.py"
    functions.write_text(FUNCTIONS.replace("OPEN", repr(str(folder / "open"))))
    with open_writer(path) as writer:
        list(
            writer.send(
                [
                    *(puppet.do(key, GARBAGE) for key in (*KEYS, "o-16")),
                    *(puppet.do(f"waits-{word}", puppet.asks(word)) for word in ("a", "b")),
                ]
            )
        )
    assert in_silence("run", "--until-waiting", "--world", path) == 0
    with open_writer(path) as writer:
        writer.apply(puppet.manifest(version=2), mode=PIN)
    secret = made(path, "ann", "read", "operate", "send")
    options = ("--operator-key", path / "keys" / "operator.key", "--executors")
    with started(path, folder / "log", *options, f"{functions}:echoes") as node:
        browser = FormBrowser(node.url)
        found = Clicks(browser)
        assert "/open" in read_page(found.page).links, "without a session"
        found.visit("/open")
        found.type(token=secret)
        yield found
        browser.close()


def test_every_link_and_button_of_the_guide_is_there(clicks: Clicks) -> None:
    """The names in bold are clicked in the order of the guide."""
    names = [" ".join(each.split()) for each in re.findall(r"\*\*([^*]+)\*\*", section())]
    base = ""

    def search() -> None:
        nonlocal base
        base = clicks.browser.base
        clicks.click("orders")
        clicks.type(q="o-17")

    def cell(number: int) -> Callable[[], None]:
        def show() -> None:
            clicks.visit(f"{base}/search?q={KEYS[number]}")

        return show

    def parked() -> None:
        rows = f"{base}/intents.json?parked=1"
        wait_until(lambda: len(clicks.browser.get(rows).json()["intents"]) >= 1)

    def fill_in() -> None:
        clicks.click(puppet.DO)
        clicks.type(value=do("o-19"))

    before: dict[str, Callable[[], None]] = {
        "Search": search,
        "Everything that happened to it": cell(0),
        "Skip the entry…": cell(1),
        "Unpin…": lambda: clicks.visit(f"{base}/search?q=waits-b"),
        "Effects": parked,
        "Show": lambda: clicks.type(parked="1"),
        "Run it again…": lambda: clicks.visit(intent(clicks)),
        "Cancel…": lambda: clicks.visit(open_intent(clicks, base)),
        "Send it": fill_in,
    }
    after = {
        "Open": "orders",
        "Search": "Why it failed",
        "Retry it": "control",
        "Skip the entry and resume": "control",
        "Retry all…": "A batch retries 2 cells",
        "Retry all": "fault_message",
        "Batches": "page-",
        "Unpin it": "control",
        "Show": "parked: exception",
        "Run it again": "Why it is open",
        "Cancel the effect": "control",
        "Send it": "o-19",
    }
    *walk, again, send = names
    for name in walk:
        if name in before:
            before.pop(name)()
        clicks.click(name)
        assert after.pop(name, "") in read_page(clicks.page).text, name
    assert (before, after) == ({}, {}), "the guide names them"
    assert {again, send} == {"Run it again…", "Send an event"}


def intent(clicks: Clicks) -> str:
    """The first effect of the list that is shown."""
    return next(each for each in read_page(clicks.page).links if "/intent/" in each)


def open_intent(clicks: Clicks, base: str) -> str:
    found = clicks.browser.get(f"{base}/intents.json").json()["intents"][0]
    return f"{base}/intent/{found['intent'].partition(':')[2]}"


def test_the_commands_of_the_guide_are_those_of_the_forms(clicks: Clicks) -> None:
    text = section()
    for command in (*COMMANDS, "send"):
        assert f"aos {command} " in text
