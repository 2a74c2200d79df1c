"""A page whose disk is full (spec/page.md, PG-103, PG-108; spec/index.md, IX-70)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from aos.host.transfer.exporting import export_world
from aos.node import kept_index
from aos.page.page_world import PageWorld
from aos.page.page_worlds import PageWorlds
from tests.cli.shell import AOS, environment
from tests.copies import copied
from tests.node.test_node_process import started
from tests.own_cache import use_own_cache
from tests.page.browser import Browser, read_page
from tests.page.form_browser import FormBrowser, made
from tests.page.operated import operated_world
from tests.page.test_page_index import documents, wait_whole
from tests.run_seed import rotated
from tests.store.disk import SmallDisk

WAIT_S = 90.0


def worlds_of(browser: Browser) -> list[PageWorld]:
    return list(browser.worlds._worlds.values())


@pytest.mark.long
@pytest.mark.parametrize("leave", rotated([0, 4096, 40_000]))
def test_an_index_that_has_no_room_leaves_all_pages_as_they_are(
    lived_in: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    leave: int,
) -> None:
    """PG-103, IX-70: until there is room again."""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    use_own_cache(monkeypatch, None)
    plain = Browser(lived_in)
    expected = documents(plain, worlds_of(plain)[0])
    plain.close()
    other = copied(lived_in, tmp_path / "other")
    with SmallDisk(tmp_path, megabytes=4, is_visible=True) as disk:
        use_own_cache(monkeypatch, disk.path / "cache")
        disk.fill(leave=leave)
        browser = Browser(lived_in, other)
        try:
            browser.get("/")
            until_s = time.monotonic() + WAIT_S
            while not all((each.index() or {}).get("problem") for each in worlds_of(browser)):
                assert time.monotonic() < until_s, worlds_of(browser)[0].index()
                browser.wait(0.05)

            for each in worlds_of(browser):
                assert documents(browser, each) == expected
                text = read_page(browser.get(f"/w/{each.slug}/cells")).text
                assert "This world has no index now: " in text
                assert "(make room on this disk). Without it, lists and traces read" in text
        finally:
            browser.close()
        disk.make_room()
        browser = Browser(lived_in)
        try:
            wait_whole(browser, worlds_of(browser)[0])
            assert documents(browser, worlds_of(browser)[0]) == expected
        finally:
            browser.close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("leave", [4096, 40_000, 500_000])
def test_a_bundle_that_has_no_room_says_so_and_other_worlds_are_served(
    lived_in: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    leave: int,
) -> None:
    """PG-108"""
    file = tmp_path / "world.aos"
    export_world(lived_in, file)
    other = copied(lived_in, tmp_path / "other")
    with SmallDisk(tmp_path, megabytes=4) as disk:
        disk.fill(leave=leave)
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(disk.path))
            browser = Browser(file, other)
        try:
            [bundle, world] = worlds_of(browser)
            assert bundle.bundle is not None
            until_s = time.monotonic() + WAIT_S
            while bundle.bundle.problem is None:
                assert time.monotonic() < until_s
                browser.wait(0.05)

            answer = browser.get(f"/w/{bundle.slug}/")
            assert answer.status_code == 507
            text = " ".join(read_page(answer).text.split())
            assert f"{file}: the bundle cannot be unpacked: found a full disk at " in text
            assert "or name another folder by TMPDIR, and start aos page again" in text
            found = browser.get(f"/w/{bundle.slug}/cells.json")
            assert (found.status_code, found.json()["rule"]) == (507, "bundle_has_no_room")
            first, second = browser.get("/.json").json()["worlds"]
            assert first["problem"] == found.json()["detail"]
            assert second["problem"] is None
            assert browser.get(f"/w/{world.slug}/cells").status_code == 200
        finally:
            browser.close()
        assert [each.name for each in disk.path.iterdir()] == ["ballast"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_limit_on_the_size_of_files_is_said(lived_in: Path, tmp_path: Path) -> None:
    """PG-108: a real page, with all of its processes, under ``ulimit -f``."""
    file = tmp_path / "world.aos"
    export_world(lived_in, file)
    other = copied(lived_in, tmp_path / "other")
    limited = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = [sys.executable, "-c", limited, *AOS, "page", str(file), str(other)]
    process = subprocess.Popen(
        [*words, "--listen", "127.0.0.1:0", "--no-token"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, trust_env=False, timeout=WAIT_S) as client:
            until_s = time.monotonic() + WAIT_S
            while True:
                bundle, world = client.get("/.json").json()["worlds"]
                if bundle["bundle"]["problem"]:
                    break
                assert time.monotonic() < until_s
                time.sleep(0.05)
            answer = client.get(f"{bundle['address']}cells.json")
            assert answer.status_code == 507
            # LMDB reports a write that was cut short as "input/output error".
            assert re.search(r"at \S+ that fails: mdb_txn_commit: [\w/ ]+ \(make room", answer.text)
            assert client.get(f"{world['address']}cells.json").status_code == 200
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()
    assert said == "Ctrl-C ends the page\n"


def test_without_a_folder_for_temporary_files_the_command_says_what_to_do(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-108"""
    file = tmp_path / "world.aos"
    export_world(lived_in, file)
    gone = tmp_path / "gone"
    worlds = PageWorlds([file, lived_in])
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(gone))
        worlds.locate()
    [problem] = worlds._problems
    assert problem["path"] == str(file)
    assert problem["problem"].startswith(str(gone))
    assert "no folder can be made to unpack bundles: No such file" in problem["problem"]
    assert len(worlds._worlds) == 1


def test_a_batch_that_a_full_disk_cannot_keep_begins_once_there_is_room(tmp_path: Path) -> None:
    """PG-69, BA-4: the form says what to do, and the same form begins one batch then."""
    with SmallDisk(tmp_path, megabytes=16) as disk:
        world = operated_world(disk.path / "w")
        secret = made(world, "operator", "read", "operate")
        key = world / "keys" / "operator.key"
        with started(world, tmp_path / "node.log", "--operator-key", key) as node:
            browser = FormBrowser(node.url).open(secret)
            address = f"{browser.base}/cells/retry?where=fault+%3D+trap"
            form, path = browser.form(address), address.partition("?")[0]
            disk.fill()
            refused = browser.post(path, form)
            listed = browser.get(f"{browser.base}/batches.json").json()["batches"]
            disk.make_room()
            begun = browser.post(path, form)
            again = browser.post(path, form)
            browser.close()

    assert refused.status_code == 503, refused.text
    assert "make room on the disk, and send it again" in refused.text
    assert listed == []
    assert (begun.status_code, again.status_code) == (303, 303), begun.text
    assert begun.headers["location"] == again.headers["location"]
