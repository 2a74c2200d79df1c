"""Worlds that run, worlds at rest, bundles, and worlds that cannot be read
(spec/page.md, PG-1, PG-8, PG-9, PG-30)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from aos.errors import BadUsage, Damage
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.transfer.exporting import export_world
from aos.node.problems import Problem
from aos.node.reading import ListTime
from aos.page import page_world
from aos.page.page_links import PageLinks
from aos.page.page_text import render, tree_lines
from aos.page.page_worlds import PageWorlds
from tests.cli.shell import AOS, environment, here, run
from tests.copies import copied
from tests.host import puppet
from tests.page.browser import Browser, crawled, read_page
from tests.page.test_page_safety import hashes

WAIT_S = 60.0


def said(browser: Browser, address: str) -> str:
    """The sentence of a page that refuses."""
    answer = browser.get(address)
    assert answer.status_code >= 400, answer.text
    return " ".join(read_page(answer).text.split())


def test_a_world_that_is_gone_or_replaced_says_so_and_the_others_are_served_on(
    lived_in: Path, tmp_path: Path
) -> None:
    """PG-9"""
    one = copied(lived_in, tmp_path / "one")
    browser = Browser(lived_in, one)
    try:
        first, second = browser.worlds._worlds
        assert browser.get(f"/w/{second}/").status_code == 200

        shutil.rmtree(one)
        assert here("inspect", "world", "-w", one).err.removeprefix("aos: ").strip() in said(
            browser, f"/w/{second}/cells"
        )

        init_world(one)
        assert "another world is in this folder now" in said(browser, f"/w/{second}/")
        assert browser.get(f"/w/{first}/").status_code == 200
        rows = browser.get("/.json").json()["worlds"]
        assert [each["problem"] is None for each in rows] == [True, False, True]
        assert browser.get(rows[2]["address"]).status_code == 200

        shutil.rmtree(one)
        copied(lived_in, one)
        assert browser.get(f"/w/{second}/").status_code == 200
    finally:
        browser.close()


def test_a_damaged_world_says_what_the_command_says(lived_in: Path, tmp_path: Path) -> None:
    """PG-9"""
    broken = tmp_path / "broken"
    shutil.copytree(lived_in, broken)
    data = broken / "store" / "data.mdb"
    data.write_bytes(b"\x00" * data.stat().st_size)
    browser = Browser(broken, lived_in)
    try:
        slug, other = browser.worlds._worlds

        sentence = here("inspect", "world", "-w", broken).err.removeprefix("aos: ").strip()

        assert sentence in said(browser, f"/w/{slug}/")
        assert browser.get(f"/w/{slug}/.json").json()["detail"] == sentence
        assert browser.get(f"/w/{other}/").status_code == 200
    finally:
        browser.close()


def test_a_pruned_record_is_gone(lived_in: Path, tmp_path: Path) -> None:
    """PG-9"""
    world = copied(lived_in, tmp_path / "world")
    assert here("snapshot", "-w", world).code == 0
    with open_reader(world) as reader:
        assert reader.state.snapshot is not None
    pruned = here(
        "journal", "prune", "--before", "newest", "--archive", tmp_path / "old.aos", "-w", world
    )
    assert pruned.code == 0, pruned.err
    browser = Browser(world)
    try:
        [slug] = browser.worlds._worlds
        assert browser.get(f"/w/{slug}/record/3").status_code == 410
        assert "pruned" in said(browser, f"/w/{slug}/record/3")
        assert browser.get(f"/w/{slug}/").status_code == 200
    finally:
        browser.close()


def test_a_path_without_a_world_is_listed_with_its_problem_if_there_is_another(
    lived_in: Path, tmp_path: Path
) -> None:
    """PG-7"""
    browser = Browser(lived_in, tmp_path / "none")
    try:
        answer = browser.get("/")
        assert str(tmp_path / "none") in read_page(answer).text
        assert "there is no such folder" in read_page(answer).text
    finally:
        browser.close()
    with pytest.raises(BadUsage):
        PageWorlds([tmp_path / "none"]).locate()


def test_new_records_are_shown(lived_in: Path, tmp_path: Path) -> None:
    """PG-4: the world is read to its durable end for each page."""
    world = copied(lived_in, tmp_path / "world")
    browser = Browser(world)
    try:
        [slug] = browser.worlds._worlds
        assert browser.get(f"/w/{slug}/search?q=newest").status_code == 200

        sent = run("send", puppet.DO, '{"key": "newest", "out": null}', "--world", world)
        assert sent.code == 0, sent.err
        assert run("run", "--until-idle", "--world", world).code == 0

        assert browser.get(f"/w/{slug}/search?q=newest").status_code == 303
    finally:
        browser.close()


def test_a_list_that_takes_too_long_asks_to_narrow_it(
    page: Browser, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-8"""
    for path in ("cells", "intents?status=all", "journal?from=1"):
        assert page.get(base + path).status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(page_world, "ListTime", lambda: ListTime(-1.0))
            answer = page.get(base + path)
            whole = page.get(
                base + path.replace("?", ".json?") if "?" in path else f"{base}cells.json"
            )
        assert answer.status_code == 503
        assert "narrow it with a filter" in read_page(answer).text
        assert whole.status_code == 200


def test_the_time_of_a_list_counts_what_was_read() -> None:
    """PG-8"""
    now = [0.0]
    limit = ListTime(0.15, lambda: now[0])
    limit.check()
    now[0] = 0.1
    limit.check()
    now[0] = 0.2

    with pytest.raises(Problem, match="more than 2 entries"):
        limit.check()


def test_a_trace_deeper_than_the_stack_is_a_page() -> None:
    """PG-12"""
    node: dict[str, object] = leaf(1)
    for seq in range(2, 5000):
        node = {**leaf(seq), "children": [node]}
    lines = tree_lines([node, leaf(6000)])
    assert [each.closes for each in lines[-2:]] == [4998, 0]
    text = render(
        "trace",
        {
            "document": {"target": "record 1", "roots": [node], "earlier": 0, "cases": []},
            "title": "Trace", "links": PageLinks("/w/0", None), "world": None, "at": None,
            "timeline": None, "graph": None, "path": {}, "command": ["aos"], "json_address": "/",
            "index": None,
        },
    ).decode()  # fmt: skip

    assert text.count("<li>") == text.count("</li>") == 4999


def leaf(seq: int) -> dict[str, object]:
    return {
        "kind": "step", "seq": seq, "index": None, "cell": None, "subject": None, "status": "ok",
        "at_ns": None, "took_ns": None, "value": None, "intent": None, "flow": None, "note": None,
        "logs": [], "is_target": False, "left_out": 0, "children": [],
    }  # fmt: skip


# Bundles


def test_a_bundle_is_read_and_verified(lived_in: Path, tmp_path: Path) -> None:
    """PG-30"""
    file = tmp_path / "world.aos"
    export_world(lived_in, file)
    before = hashes(tmp_path)
    browser = Browser(file)
    try:
        [world] = browser.worlds._worlds.values()
        assert world.bundle is not None
        until_s = time.monotonic() + WAIT_S
        while world.bundle.report is None and time.monotonic() < until_s:
            answer = browser.get(f"/w/{world.slug}/")
            assert answer.status_code in (200, 503)
            browser.wait(0.1)

        answer = browser.get(f"/w/{world.slug}/")

        assert "Sound to record" in " ".join(read_page(answer).text.split())
        assert len(crawled(browser, f"/w/{world.slug}/")) > 100
        [row] = browser.get("/.json").json()["worlds"]
        assert (row["bundle"]["phase"], row["origin"]) == ("sound", "imported")
        scratch = world._path
    finally:
        browser.close()
    assert hashes(tmp_path) == before
    assert not scratch.parent.exists()


@pytest.mark.parametrize("place", [0.3, 0.6, 0.95])
def test_a_damaged_bundle_shows_findings_and_no_world(
    lived_in: Path, tmp_path: Path, place: float
) -> None:
    """PG-30"""
    file = tmp_path / "world.aos"
    export_world(lived_in, file)
    data = bytearray(file.read_bytes())
    data[int(len(data) * place)] ^= 0x55
    file.write_bytes(data)
    try:
        browser = Browser(file)
    except Damage:
        return  # the damage is where the header is found
    try:
        [world] = browser.worlds._worlds.values()
        assert world.bundle is not None
        until_s = time.monotonic() + WAIT_S
        while world.bundle.problem is None and time.monotonic() < until_s:
            browser.wait(0.1)

        answer = browser.get(f"/w/{world.slug}/")

        assert answer.status_code == 422
        assert world.bundle.document()["phase"] == "damaged"
        assert "found problems" in read_page(answer).text
    finally:
        browser.close()


# The command


def test_the_command_prints_one_link_serves_and_ends_with_ctrl_c(lived_in: Path) -> None:
    """PG-23, PG-24, C-160"""
    process = subprocess.Popen(
        [*AOS, "page", str(lived_in), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open\?token=[\w-]{43}", url)
        with httpx.Client(follow_redirects=True, timeout=WAIT_S, trust_env=False) as client:
            found = client.get(url)
            assert (found.status_code, found.url.path) == (200, "/")
            assert client.get(url).status_code == 401
            port = found.url.port
            with httpx.Client(timeout=WAIT_S, trust_env=False) as other:
                assert other.get(f"http://127.0.0.1:{port}/").status_code == 401
            big = client.get(f"http://127.0.0.1:{port}/", headers={"x": "a" * 40_000})
            assert big.status_code == 431
            assert big.headers["content-security-policy"].startswith("default-src 'none'")
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    assert out == ""
    assert "token" not in err


def test_a_page_for_other_machines_is_refused(lived_in: Path) -> None:
    """PG-23"""
    found = here("page", lived_in, "--listen", "0.0.0.0:0")

    assert found.code == 1
    assert "expected a loopback address" in found.err
    assert not os.path.lexists(lived_in / "node")
