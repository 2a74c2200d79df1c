"""Requests that no page makes, and worlds that change under the page (spec/page.md, PG-2, PG-9,
PG-22, PG-87): one sentence and a right status each, and the other worlds are served on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from aos.node.bounds import HEADER_S
from aos.page import page_world
from aos.page.page_links import key_segment
from aos.page.page_table import PAGES
from aos.values.cbor import encode
from tests.cli.shell import run, start
from tests.copies import copied
from tests.host import puppet
from tests.page.browser import Browser, read_page
from tests.page.in_browser.page_process import served
from tests.page.test_page_safety import hashes
from tests.run_core import run_core
from tests.tools import long_form

WAIT_S = 60.0
REFUSALS = frozenset({400, 404, 409, 410, 413, 414, 422, 503})
ODD = (
    "", " ", "-1", "0", "-0", "1", "1e3", "1.5", "true", "null", "9" * 18, "9" * 30, "0x10", "%00",
    "%2500", "%25%32%35", "\u0661", "a" * 2_000, "\U0010ffff", "../..", "<b>", "'\";--", "[]", "{",
)  # fmt: skip
"""Values of parameters: unknown, huge, negative, empty, encoded twice, of other scripts."""


def sentence(answer: httpx.Response, *statuses: int) -> str:
    """The one sentence of a refusal, which has one of the statuses."""
    assert answer.status_code in (statuses or REFUSALS), (answer.status_code, answer.text)
    text = " ".join(read_page(answer).text.split())
    assert "page_has_a_bug" not in text
    found = answer.text.partition('role="alert">')[2].partition("</p>")[0]
    assert found.strip(), answer.text
    assert "Traceback" not in found
    return found


@pytest.mark.long
def test_odd_values_of_every_parameter_have_a_page_or_a_sentence(page: Browser, base: str) -> None:
    """PG-22"""
    words = ODD if long_form() else ODD[::3]
    refused = 0
    for each in PAGES:
        path = each.path.format(ns="host", name="puppet@1", key="Y2FkYQ", word="3")
        address = base.rstrip("/") + path
        for name in [*(each.name for each in each.route.query), "no_such_parameter"]:
            for word in words:
                given = f"{name}={quote(word, safe='%')}"
                for query in (given, f"{given}&{given}"):
                    answer = page.get(f"{address}?{query}")
                    if answer.status_code in (200, 303):
                        continue
                    sentence(answer)
                    refused += 1
    assert refused > 200


@pytest.mark.parametrize("word", ODD)
def test_odd_segments_of_a_path_have_a_sentence(page: Browser, base: str, word: str) -> None:
    """PG-22"""
    segment = quote(word, safe="%")
    for kind in (
        "record",
        "trace",
        "intent",
        "value",
        "proposals",
        "linear",
        "flow/host/puppet@1",
        "cell/host/puppet@1",
        "w",
    ):
        answer = page.get(f"{base}{kind}/{segment}/")
        assert answer.status_code in REFUSALS
        answer = page.get(f"{base}{kind}/{segment}")
        if answer.status_code != 200:
            sentence(answer)


def test_a_page_behind_the_end_is_refused_and_an_offset_behind_it_is_empty(
    page: Browser, base: str
) -> None:
    """PG-6"""
    for path in ("", "cells", "faults", "manifest", "cell/host/puppet@1/Y2FkYQ"):
        assert "record" in sentence(page.get(f"{base}{path}?at=999999"))
    for path in ("cells", "faults", "intents"):
        answer = page.get(f"{base}{path}?offset=999999")
        assert answer.status_code == 200
        assert f"{base}{path}" in read_page(answer).links
    assert page.get(f"{base}journal?from=999999").status_code in (200, 404)


def test_a_key_of_1024_bytes_is_found_and_a_longer_one_is_refused(page: Browser, base: str) -> None:
    """PG-5, PG-22"""
    for size in (1_000, 1_021, 5_000):
        segment = key_segment(encode("k" * size))
        assert "there is no" in sentence(page.get(f"{base}cell/host/puppet@1/{segment}"))
    assert page.get(f"{base}cell/host/puppet@1/{'a' * 9_000}").status_code == 414


def test_a_cookie_of_another_page_opens_nothing(lived_in: Path) -> None:
    """PG-24"""
    one, other = Browser(lived_in, needs_token=True), Browser(lived_in, needs_token=True)
    try:
        cookie = one.get(f"/open?token={one.session.token}").headers["set-cookie"]
        value = cookie.partition(";")[0]
        assert one.get("/", cookie=value).status_code == 200
        assert other.get("/", cookie=value).status_code == 401
        assert other.get("/", cookie=value.replace("7470", "7471")).status_code == 401
        assert other.get(f"/open?token={one.session.token}").status_code == 401
    finally:
        one.close()
        other.close()


# Connections


@pytest.fixture(scope="module")
def origin(lived_in: Path) -> Iterator[str]:
    with served(lived_in) as found:
        yield found


def connected(origin: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(origin.rpartition(":")[2])), timeout=WAIT_S)


def last_of_200(origin: str) -> list[bytes]:
    """Send half a header on each of 200 connections; the answers to the last 100."""
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(origin)) for _ in range(200)]
        for connection in opened:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        return [connection.recv(4096) for connection in opened[-100:]]


def test_200_connections_that_send_half_a_request_do_not_end_the_page(origin: str) -> None:
    """PG-22: beyond 64 they are refused, and the page is served as soon as they are gone."""
    for _ in range(5):
        began_s = time.monotonic()
        answers = last_of_200(origin)
        if time.monotonic() - began_s < HEADER_S:
            break
        # The page may have closed the first ones, and have room again.
    else:
        pytest.fail("the connections could not be made in the time of a header")
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 503"), answer
        assert b"content-security-policy" in answer.lower()
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        with httpx.Client(base_url=origin, timeout=WAIT_S, trust_env=False) as client:
            if client.get("/").status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail("the page does not answer after the connections were closed")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 8_000, b"431"),
        (b"GET / HTTP/1.1\r\nX-A: " + b"a" * 70_000, b"431"),
        (b"GET /" + b"a" * 70_000, b"431"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 200, b"40"),
        (b"\r\n\r\n\x00\xff" * 20, b"400"),
    ],
)  # fmt: skip
def test_an_endless_or_broken_request_is_refused(origin: str, sent: bytes, status: bytes) -> None:
    """PG-22"""
    with connected(origin) as each:
        try:
            each.sendall(sent)
            answer = each.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
        assert not answer or answer.startswith(b"HTTP/1.1 " + status), answer
    assert httpx.get(f"{origin}/", timeout=WAIT_S, trust_env=False).status_code == 200


@pytest.mark.long
def test_a_request_that_never_ends_is_cut_off(origin: str) -> None:
    """PG-22: N-140 gives a header 10 s."""
    if not long_form():
        pytest.skip("it takes 10 s: the long form")
    with connected(origin) as each:
        each.sendall(b"GET / HTTP/1.1\r\n")
        began_s = time.monotonic()
        found = b""
        while time.monotonic() - began_s < WAIT_S:
            try:
                each.sendall(b"X: y\r\n")
            except OSError:
                break
            each.settimeout(0.5)
            try:
                found += each.recv(4096)
                break
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408"), found


# Worlds that change while they are shown


@pytest.fixture
def shown(lived_in: Path, tmp_path: Path) -> Iterator[tuple[Path, Browser, str, str]]:
    """A copy of the world, shown with the original: its folder, the page, both addresses."""
    world = copied(lived_in, tmp_path / "world")
    browser = Browser(world, lived_in)
    before = hashes(lived_in)
    try:
        mine, other = (f"/w/{slug}/" for slug in browser.worlds._worlds)
        assert browser.get(mine).status_code == 200
        yield world, browser, mine, other
        assert browser.get(other).status_code == 200
        assert browser.get(f"{other}cells").status_code == 200
        assert hashes(lived_in) == before, "the page changed a world's folder"
    finally:
        browser.close()


def test_a_world_whose_process_was_killed_and_started_again_is_shown(
    shown: tuple[Path, Browser, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-4"""
    monkeypatch.setattr(page_world, "ASK_S", WAIT_S)  # a busy machine may keep it from answering
    world, browser, mine, _ = shown
    for _ in range(2):
        process = start("run", "--world", world, stdout=-3, stderr=-3)
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            found = browser.get(f"{mine}.json")
            if found.status_code == 200 and found.json()["process"] is not None:
                break
            browser.wait(0.05)
        assert browser.get(f"{mine}.json").json()["process"]["pid"] == process.pid
        assert f"{run_core().value} runs it" in " ".join(read_page(browser.get(mine)).text.split())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        answer = browser.get(mine)
        assert answer.status_code == 200
        assert "none runs this world" in " ".join(read_page(answer).text.split())


def test_a_world_that_an_older_copy_replaces_is_shown_as_that_copy(
    shown: tuple[Path, Browser, str, str], tmp_path: Path
) -> None:
    """PG-9"""
    world, browser, mine, _ = shown
    shutil.copytree(world, tmp_path / "older")
    assert run("send", puppet.DO, '{"key": "newest", "out": null}', "--world", world).code == 0
    assert run("run", "--until-idle", "--world", world).code == 0
    newer = browser.get(f"{mine}.json").json()["journal"]["records"]
    assert browser.get(f"{mine}search?q=newest").status_code == 303

    world.rename(tmp_path / "newer")
    (tmp_path / "older").rename(world)

    answer = browser.get(f"{mine}.json")
    assert answer.status_code == 200
    assert answer.json()["journal"]["records"] < newer
    assert browser.get(f"{mine}search?q=newest").status_code == 200
    assert "expected a record" in sentence(browser.get(f"{mine}record/{newer}"), 404)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_world_that_is_deleted_while_it_is_shown_has_a_sentence(
    shown: tuple[Path, Browser, str, str], is_whole: bool
) -> None:
    """PG-9: the whole folder, or the store alone."""
    world, browser, mine, _ = shown
    shutil.rmtree(world if is_whole else world / "store")

    command = run("inspect", "world", "-w", world)
    expected = command.err.removeprefix("aos: ").strip()
    for path in ("", "cells", "record/3", "manifest", "search?q=ada", "trace/3"):
        answer = browser.get(mine + path)
        assert sentence(answer, 404 if is_whole else 500)
        assert " ".join(expected.split()) in " ".join(read_page(answer).text.split())


def test_a_world_that_is_overwritten_while_it_is_shown_has_a_sentence(
    shown: tuple[Path, Browser, str, str],
) -> None:
    """PG-9"""
    world, browser, mine, _ = shown
    data = world / "store" / "data.mdb"
    size = data.stat().st_size
    data.unlink()
    data.write_bytes(b"\xff" * size)

    for path in ("", "cells", "record/3"):
        answer = browser.get(mine + path)
        assert sentence(answer, 500)
        assert "<code>world_is_damaged</code>" in answer.text


def test_records_that_are_pruned_while_they_are_shown_are_gone(
    shown: tuple[Path, Browser, str, str], tmp_path: Path
) -> None:
    """PG-9: also for a page as of a record before the cut."""
    world, browser, mine, _ = shown
    assert browser.get(f"{mine}record/3").status_code == 200
    assert run("snapshot", "-w", world).code == 0
    archive = tmp_path / "old.aos"
    pruned = run("journal", "prune", "--before", "newest", "--archive", archive, "-w", world)
    assert pruned.code == 0, pruned.err

    for path in ("record/3", "?at=5", "cells?at=5"):
        answer = browser.get(mine + path)
        assert answer.status_code == 410, (path, answer.text)
        assert "pruned" in sentence(answer)
    for path in ("", "cells", "intents?status=all", "journal", "manifest", "faults"):
        assert browser.get(mine + path).status_code == 200, path


def test_a_value_that_is_erased_while_it_is_shown_is_shown_as_erased(
    shown: tuple[Path, Browser, str, str],
) -> None:
    """PG-9, A-67a"""
    world, browser, mine, _ = shown
    record, value = next(
        (seq, each["value"])
        for seq in range(1, 46)
        for each in browser.get(f"{mine}record/{seq}.json").json()["values"]
        if each["where"].startswith("value")
    )
    address = f"{mine}value/{value.partition(':')[2]}"
    assert browser.get(f"{address}/bytes").status_code == 200

    erased = run("erase", value, "--yes", "-w", world)

    assert erased.code == 0, erased.err
    assert "The value was erased" in read_page(browser.get(address)).text
    assert "erased" in sentence(browser.get(f"{address}/bytes"), 410)
    assert browser.get(f"{mine}record/{record}").status_code == 200
