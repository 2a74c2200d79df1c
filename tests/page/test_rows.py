"""Rows of the journal and of faults: times, links and commands (spec/page.md, PG-131 to PG-133)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from aos.core.journal.record_codec import from_bytes
from aos.host.folder.reader import open_reader
from aos.read.lens.words import time_text
from aos.read.views.reason import command_words
from tests.cli.shell import run
from tests.in_bash import in_bash
from tests.page.browser import Browser, read_page

ROW = re.compile(r'<tr data-key="(\d+)">(.*?)</tr>', re.DOTALL)
TIME = re.compile(r'<time datetime="([^"]*)">')


def rows(page: Browser, address: str) -> dict[int, str]:
    """The rows of a page of the journal, by record."""
    return {int(seq): row for seq, row in ROW.findall(page.get(address).text)}


def test_each_record_of_the_journal_has_a_time(page: Browser, base: str, lived_in: Path) -> None:
    """PG-131: that of its stamp, or of the last record before it that has one."""
    found = rows(page, f"{base}journal?from=1&limit=1000")
    with open_reader(lived_in) as reader:
        expected: dict[int, int] = {}
        last_ns = 0
        kinds = {}
        for frame in reader.store.frames():
            for record in map(from_bytes, frame.records):
                stamp = getattr(record, "stamp", None)
                last_ns = last_ns if stamp is None else stamp.ns
                expected[record.seq], kinds[record.seq] = last_ns, record.KIND

    assert set(found) == set(expected)
    assert {"step", "fault"} <= set(kinds.values())
    times = {seq: TIME.findall(row) for seq, row in found.items()}
    assert {len(each) for each in times.values()} == {1}
    for seq, [time] in times.items():
        assert time == time_text(expected[seq]), (seq, kinds[seq])


def test_a_filter_changes_no_time(page: Browser, base: str) -> None:
    """PG-131"""
    whole = rows(page, f"{base}journal?from=1&limit=1000")
    steps = rows(page, f"{base}journal?kind=step&limit=1000")
    assert len(steps) > 5
    for seq, row in steps.items():
        assert TIME.findall(row) == TIME.findall(whole[seq])


def test_the_cells_of_a_record_are_links(page: Browser, base: str) -> None:
    """PG-132"""
    found = rows(page, f"{base}journal?from=1&limit=1000")
    documents = [
        json.loads(line)
        for line in page.get(f"{base}journal.json?from=1&limit=1000").text.splitlines()
    ]
    linked = 0
    for each in documents:
        cells = [each["cell"]] if each.get("cell") else each.get("to", [])
        links = [
            link for link in re.findall(r'href="([^"]*)"', found[each["seq"]]) if "/cell/" in link
        ]
        assert len(links) == min(3, len(cells)), each
        linked += len(links)
        for link in links[:1]:
            assert page.get(link).status_code in (200, 404)
    assert linked > len(documents) / 2


def test_a_command_of_a_fault_runs_as_it_is_shown(lived_in: Path, tmp_path: Path) -> None:
    """PG-133"""
    world = tmp_path / "a world"
    shutil.copytree(lived_in, world)
    (world / "aos.sock").unlink(missing_ok=True)
    assert run("adopt", "--world", world).code == 0
    browser = Browser(world)
    try:
        [base] = [each["address"] for each in browser.get("/.json").json()["worlds"]]
        faults = browser.get(f"{base}faults.json").json()["faults"]
        shown = read_page(browser.get(f"{base}faults")).codes
    finally:
        browser.close()

    codes = [each for each in shown if " retry " in each]
    expected = []
    for each in faults:
        retry = f"aos cells retry {command_words(each['workflow'], each['key'])}"
        assert each["retry"] == retry
        assert each["skip"] in (None, f"{retry} --skip")
        expected += [retry] if each["skip"] is None else [retry, f"{retry} --skip"]
    assert [in_bash(each) for each in codes] == [
        [*in_bash(each), "--world", str(world)] for each in expected
    ]
    assert len(codes) > 1
    for each in codes:
        if each.split("--world")[0].endswith("--skip "):
            assert run(*in_bash(each)[1:]).code == 0


@pytest.mark.parametrize("key", ["ada", "bad", "wait"])
def test_a_page_shows_one_time_for_one_step(page: Browser, base: str, key: str) -> None:
    """PG-44: the time of the last step is that of the list of cells; the input has its own."""
    rows = page.get(f"{base}cells.json").json()["cells"]
    [cell] = [each for each in rows if each["key"] == key]
    [link] = [
        each for each in read_page(page.get(f"{base}cells")).links
        if "/cell/" in each and page.get(f"{each}.json").json().get("key") == key
    ][:1]  # fmt: skip
    text = page.get(link).text
    lead = text.partition('<p class="lead">')[2].partition("</p>")[0]
    assert TIME.findall(lead) == [time_text(cell["last_active_ns"])]
    section = text.partition("<h2>Its last step</h2>")[2].partition("</section>")[0]
    assert section
    step, _, taken = section.partition('<p class="lead"><span class="kind')
    assert TIME.findall(step) == []
    assert len(TIME.findall(taken.partition("</p>")[0])) == 1
