"""Names of folders and bundles that would do something in a page or a shell (spec/page.md, PG-21,
PG-109)."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aos.document_text import CONTROLS
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.transfer.exporting import export_world
from aos.page.page_text import visible
from aos_cli.main import run_command
from tests.cli.shell import in_silence
from tests.host import puppet
from tests.in_bash import in_bash
from tests.page.browser import Browser, Seen, read_page
from tests.tools import long_form

NAMES: Final = (
    "<script>alert(1)<\"><img src=x onerror=alert(1)>' onmouseover='alert(1) \"&amp;",
    "$(touch ran) `touch ran`; touch ran & ~ * ? ! {{ 7 * 7 }}{% if 1 %}{# x #}",
    "\u202egnp.exe\u2066 line\nbreak\ttab bell\x07esc\x1b[31m'quote\\back",
    os.fsdecode(b"\xff\xfe no UTF-8 \xe2\x80"),
    "-rf",
)
WAIT_S: Final = 90.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each name, a world and a bundle."""
    base = tmp_path_factory.mktemp("names")
    world = base / "world"
    init_world(world)
    with open_writer(world) as writer:
        writer.apply(puppet.manifest())
        list(writer.send([puppet.do("ada", puppet.asks("hello")), puppet.do("bad", b"\xff")]))
    assert in_silence("run", "--until-idle", "--world", world) == 0
    export_world(world, base / "bundle")
    for name in NAMES:
        shutil.copytree(world, base / name)
        shutil.copyfile(base / "bundle", base / f"{name}.aos")
    return base


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    """The page of all of them, started in their folder with their names alone."""
    before = Path.cwd()
    os.chdir(folder)
    browser = Browser(*(Path(f"{name}{end}") for name in NAMES for end in ("", ".aos")))
    yield browser
    browser.close()
    os.chdir(before)


def bases(browser: Browser) -> dict[str, str]:
    """The address of each world, by the name that was given."""
    return {str(world.user_path): f"/w/{slug}/" for slug, world in browser.worlds._worlds.items()}


def as_seen(name: str) -> str:
    return " ".join(visible(name).encode(errors="backslashreplace").decode().split())


def wait_unpacked(browser: Browser) -> None:
    until_s = time.monotonic() + WAIT_S
    while any(each.bundle and not each.bundle.report for each in browser.worlds._worlds.values()):
        assert time.monotonic() < until_s
        browser.wait(0.05)


def crawl(browser: Browser, base: str) -> Iterator[tuple[str, Seen]]:
    """Every page of a world that a link leads to."""
    todo, known = [base], {base}
    while todo:
        address = todo.pop()
        answer = browser.get(address)
        assert answer.status_code in (200, 303), (address, answer.text)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        assert not set(map(ord, answer.text)) & CONTROLS.keys(), address
        seen = read_page(answer)
        yield address, seen
        more = {each for each in seen.links if each.startswith(base) and ".json" not in each}
        todo += more - known
        known |= more


def test_every_page_shows_the_name_and_a_command_that_a_shell_understands(
    browser: Browser, folder: Path
) -> None:
    """PG-21, PG-109: the pages of each bundle, and in the long form those of each world, too."""
    wait_unpacked(browser)
    for name, base in bases(browser).items():
        if not (name.endswith(".aos") or long_form()):
            continue
        pages, commands = 0, set()
        for address, seen in crawl(browser, base):
            assert as_seen(name) in " ".join(seen.text.split()), (name, address)
            pages += 1
            commands |= {each for each in seen.codes if re.match("aos .* --world ", each)}
            if name.endswith(".aos"):
                [banner] = [each for each in seen.codes if each.startswith("aos verify ")]
                assert in_bash(banner)[-1] == name
        assert pages > 15
        assert len(commands) > 10
        for command in commands:
            words = in_bash(command)
            assert words[words.index("--world") + 1] == name
    assert not (folder / "ran").exists()


def test_the_command_of_a_page_prints_its_document(
    browser: Browser, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """PG-3, PG-109: run with the words that a shell makes of it."""
    for name, base in bases(browser).items():
        if name.endswith(".aos"):
            continue
        answer = browser.get(f"{base}journal")
        [command] = [each for each in read_page(answer).codes if "journal" in each]
        words = in_bash(command)
        capsysbinary.readouterr()
        assert run_command([*words[1:], "--json"]) == 0, words
        out, err = capsysbinary.readouterr()
        assert (out, err) == (browser.get(f"{base}journal.json").content, b""), name


def test_documents_name_the_folder(browser: Browser) -> None:
    """PG-7: as JSON that a program reads back."""
    wait_unpacked(browser)
    data = browser.get("/.json").content
    rows = json.loads(data)["worlds"]
    assert [each["path"] for each in rows] == list(bases(browser))
    assert [each["problem"] for each in rows] == [None] * len(rows)
    text = " ".join(read_page(browser.get("/")).text.split())
    for name in bases(browser):
        assert as_seen(name) in text


@pytest.mark.parametrize("name", NAMES)
def test_a_world_that_is_damaged_or_gone_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    """PG-9, PG-21: in the sentence of its page, and of a document that a reader process refuses."""
    path = tmp_path / name
    shutil.copytree(folder / name, path)
    browser = Browser(path)
    try:
        [slug] = browser.worlds._worlds
        assert browser.get(f"/w/{slug}/cells.json").status_code == 200
        (path / "world.json").write_text("{")
        for page in ("", "cells", "cells.json", "trace/3.json", "live.json"):
            answer = browser.get(f"/w/{slug}/{page}")
            assert answer.status_code in (404, 500), (page, answer.text)
            if page.endswith(".json"):
                assert name in answer.json()["detail"]
            else:
                assert as_seen(name) in " ".join(read_page(answer).text.split())
        shutil.rmtree(path)
        answer = browser.get(f"/w/{slug}/cells")
        assert answer.status_code == 404
        assert as_seen(name) in " ".join(read_page(answer).text.split())
    finally:
        browser.close()
