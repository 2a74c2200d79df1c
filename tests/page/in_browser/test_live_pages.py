"""Pages that stay as the world is now, in a real browser (spec/page.md, PG-125 to PG-130)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.writer import Item, open_writer
from aos.host.folder.reader import open_reader
from tests.cli.shell import here, in_silence
from tests.copies import copied
from tests.host import puppet
from tests.page.form_browser import FormBrowser
from tests.page.in_browser.chromium import Chromium
from tests.page.in_browser.page_process import served

WAIT_S = 90.0
ADA = "cell/host/puppet@1/Y2FkYQ"
STATE = "() => document.querySelector('[data-live-state]').textContent"
FIGURE = "() => document.querySelector('[data-figure=record]').textContent"
RECORD = "() => document.querySelector('[data-live=head]').textContent"
HIDE = """(isHidden) => {
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => isHidden});
  document.dispatchEvent(new Event('visibilitychange'));
}"""
OPEN = "() => performance.getEntriesByType('resource').map(each => each.name)"


@pytest.fixture(scope="module")
def world(lived_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(lived_in, tmp_path_factory.mktemp("live") / "world")


@pytest.fixture(scope="module")
def address(world: Path, chromium: Chromium) -> Iterator[str]:
    with served(world) as origin:
        yield origin + address_of_world(chromium, origin)


@pytest.fixture
def base(address: str, chromium: Chromium) -> Iterator[str]:
    """The address of the world's pages, for a new window."""
    chromium.window()
    yield address
    chromium.visit("about:blank")


def address_of_world(chromium: Chromium, origin: str) -> str:
    chromium.window()
    links = chromium.visit(origin + "/").links
    return next(each for each in links if each.startswith("/w/"))


def happens(world: Path, key: str, item: Item | None = None) -> None:
    """An event for a cell, and its step."""
    with open_writer(world) as writer:
        list(writer.send([item or puppet.do(key)]))
    assert in_silence("run", "--until-idle", "--world", world) == 0


def until(chromium: Chromium, code: str, condition: Callable[[Any], bool]) -> Any:
    until_s = time.monotonic() + WAIT_S
    while not condition(found := chromium.evaluate(code)):
        assert time.monotonic() < until_s, found
        time.sleep(0.05)
    return found


def test_a_page_shows_what_is_new_without_a_reload(
    chromium: Chromium, base: str, world: Path
) -> None:
    """PG-125, PG-126"""
    before = chromium.visit(base)
    until(chromium, STATE, lambda text: text == "Live")
    chromium.evaluate("() => { window.mine = 1 }")
    records = chromium.evaluate(FIGURE)

    happens(world, "brand new")
    with open_reader(world) as reader:
        last = f"{reader.state.tip.seq:,}"

    # The records of an event and of its step may come one by one.
    until(chromium, RECORD, lambda text: f"As of record {last} " in text)
    until(chromium, FIGURE, lambda text: text == last)
    after = chromium.look()
    assert chromium.evaluate("() => window.mine") == 1, "the page was not loaded again"
    assert int(last.replace(",", "")) > int(records.replace(",", ""))
    assert f"As of record {last} " in after.content
    assert (before.happened, after.happened) == ([], [])


def test_focus_selection_scroll_and_open_details_stay(
    chromium: Chromium, base: str, world: Path
) -> None:
    """PG-127"""
    chromium.window(width=800, height=400)
    chromium.visit(base + ADA)
    chromium.evaluate("""() => {
      document.querySelector('details').open = true;
      const heading = document.querySelector('h1').firstChild;
      getSelection().setBaseAndExtent(heading, 1, heading, 4);
      document.querySelector('main p a[href*=steps]').focus({preventScroll: true});
      scrollTo(0, 120);
    }""")
    look = """() => ({
      focus: document.activeElement.textContent, isOpen: document.querySelector('details').open,
      selected: getSelection().toString(), top: document.documentElement.scrollTop,
      rows: document.querySelectorAll('details tbody tr').length,
    })"""
    before = chromium.evaluate(look)
    assert (before["isOpen"], before["top"], len(before["selected"])) == (True, 120, 3)

    happens(world, "ada")
    after = until(chromium, look, lambda found: found["rows"] >= before["rows"] + 2)

    assert after == {**before, "rows": after["rows"]}


def test_text_in_a_form_stays(chromium: Chromium, base: str, world: Path) -> None:
    """PG-127"""
    before = chromium.visit(base + "cells")
    chromium.evaluate("() => document.querySelector('main input[name=workflow]').focus()")
    chromium.type("pup")
    chromium.evaluate("() => { document.querySelector('main select').value = 'failed' }")

    happens(world, "another one")
    until(chromium, RECORD, lambda text: text not in before.content)
    chromium.type("pet")

    found = chromium.evaluate("""() => [document.activeElement.value,
      document.querySelector('main select').value]""")
    assert found == ["puppet", "failed"]
    assert "another one" in chromium.look().text


def test_the_journal_shows_new_records_and_keeps_the_old_rows(
    chromium: Chromium, base: str, world: Path
) -> None:
    """PG-128"""
    chromium.visit(base + "journal")
    last = """() => [...document.querySelectorAll('tr[data-key]')].map(row => row.dataset.key)"""
    before = chromium.evaluate(last)
    chromium.evaluate("""() => {
      for (const row of document.querySelectorAll('tr[data-key]')) row.mark = row.dataset.key;
      scrollTo(0, document.documentElement.scrollHeight);
    }""")

    happens(world, "tail")
    after = until(chromium, last, lambda rows: rows[-1] != before[-1])

    marks = chromium.evaluate(
        "() => [...document.querySelectorAll('tr[data-key]')].map(row => row.mark ?? null)"
    )
    kept = [row for row, mark in zip(after, marks, strict=True) if mark is not None]
    assert kept == [row for row in before if row in after]
    assert [mark for mark in marks if mark] == kept, "each row is still the same element"
    assert int(after[-1]) > int(before[-1])
    assert chromium.evaluate("""() => {
      const root = document.documentElement;
      return root.scrollTop + root.clientHeight >= root.scrollHeight - 4;
    }""")


def test_a_hidden_page_and_a_paused_one_stop_and_continue(
    chromium: Chromium, base: str, world: Path
) -> None:
    """PG-129"""
    before = chromium.visit(base)
    until(chromium, STATE, lambda text: text == "Live")

    chromium.evaluate(HIDE, True)
    happens(world, "unseen")
    time.sleep(1.5)
    assert chromium.evaluate(RECORD) in before.content
    chromium.evaluate(HIDE, False)
    seen = until(chromium, RECORD, lambda text: text not in before.content)

    chromium.click("[data-live-pause]")
    assert chromium.evaluate(STATE) == "Paused"
    happens(world, "paused")
    time.sleep(1.5)
    assert chromium.evaluate(RECORD) == seen
    chromium.click("[data-live-pause]")
    until(chromium, RECORD, lambda text: text != seen)
    assert chromium.evaluate(STATE) == "Live"


def test_a_lost_connection_is_said_in_words_and_found_again(
    chromium: Chromium, world: Path
) -> None:
    """PG-129"""
    with served(world) as origin:
        before = chromium.visit(origin + address_of_world(chromium, origin))
        until(chromium, STATE, lambda text: text == "Live")

    said = until(chromium, STATE, lambda text: text != "Live")
    assert said.startswith("Not live since ")
    assert said.endswith(" UTC: the connection was lost. The page tries again.")
    happens(world, "meanwhile")
    with served(world, port=int(origin.rpartition(":")[2])):
        until(chromium, STATE, lambda text: text == "Live")
        until(chromium, RECORD, lambda text: text not in before.content)
    chromium.visit("about:blank")


def test_streams_leave_connections_of_the_browser_for_pages(chromium: Chromium, base: str) -> None:
    """PG-129"""
    chromium.visit(base)
    until(chromium, STATE, lambda text: text == "Live")
    chromium.click("[data-live-pause]")
    chromium.evaluate("""async () => {
      window.done = [];
      for (const number of [0, 1, 2, 3]) await new Promise((taken) =>
        navigator.locks.request(`aos-live-${number}`, () => {
          taken();
          return new Promise((done) => window.done.push(done));
        }));
    }""")

    chromium.click("[data-live-pause]")

    until(chromium, STATE, lambda text: "UTC: 4 other pages of this browser are live" in text)
    chromium.evaluate("() => window.done[2]()")
    until(chromium, STATE, lambda text: text == "Live")


def test_new_failures_are_announced_politely(chromium: Chromium, base: str, world: Path) -> None:
    """PG-130"""
    chromium.visit(base + "cells")
    until(chromium, STATE, lambda text: text == "Live")
    happens(world, "calm")
    news = "() => document.querySelector('[data-live-news][role=status]').textContent"

    happens(world, "trap 2", puppet.trap("trap 2"))

    until(chromium, news, lambda text: text == "1 more failed")


def test_a_page_of_the_past_opens_no_stream(chromium: Chromium, base: str) -> None:
    """PG-124"""
    for path in ("?at=9", "record/5", "manifest"):
        chromium.visit(base + path)
        assert not [each for each in chromium.evaluate(OPEN) if "/live" in each]


def test_the_slider_shows_another_step_at_once_and_keeps_the_focus(
    chromium: Chromium, base: str
) -> None:
    """PG-130"""
    address = base + ADA.replace("cell/", "steps/", 1)
    before = chromium.visit(address)
    [count] = re.findall("Step ([0-9]+) of \\1", before.text)
    chromium.evaluate("() => { document.querySelector('#step').focus(); window.mine = 1 }")

    chromium.press("ArrowLeft")

    until(
        chromium,
        "() => document.querySelector('label[for=step]').textContent",
        lambda text: f"Step {int(count) - 1} of {count}" in text,
    )
    assert chromium.evaluate("() => location.search") == f"?step={int(count) - 1}"
    assert chromium.evaluate("() => [document.activeElement.id, window.mine]") == ["step", 1]


@pytest.mark.long
def test_a_batch_that_is_stopped_without_a_record_is_shown_so(
    chromium: Chromium, operated: Path, operator: FormBrowser, secrets: dict[str, str]
) -> None:
    """PG-66"""
    words = ("retry", "--where", "key ^= f-", "--rate", "1/h", "--id", "live")
    assert here("batch", *words, "-w", operated).code == 0
    chromium.window()
    chromium.visit(f"{operator.url}/open")
    chromium.click("input[type=password]")
    chromium.type(secrets["operator"])
    chromium.follow()
    status = "() => document.querySelector('main .status').textContent"
    chromium.visit(f"{operator.url}{operator.base}/batch/live")
    assert chromium.evaluate(status) == "running"

    assert here("batch", "stop", "live", "-w", operated).code == 0

    until(chromium, status, lambda text: text == "stopped")
    chromium.visit("about:blank")
