"""The stream of a live page (spec/page.md, PG-120 to PG-123)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.folder.making import init_world
from aos.host.transfer.exporting import export_world
from aos.page import live_stream
from aos.page.live_stream import STREAMS_MAX
from aos.page.page_headers import HEADERS
from aos.page.page_world import PageWorld
from tests.cli.shell import run
from tests.copies import copied
from tests.host import puppet
from tests.page.browser import HOST, Browser
from tests.page.in_browser.page_process import served

WAIT_S = 60.0


class Watched:
    """One stream in this process: what the application sends, and a client that can be slow."""

    def __init__(self, browser: Browser, address: str, **headers: str) -> None:
        self._runner = browser._runner
        self._app = browser.app
        path, _, query = address.partition("?")
        more = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query.encode(), "server": ("127.0.0.1", 7470),
            "client": ("127.0.0.1", 50_000),
            "headers": [(b"host", HOST.encode()), *more],
        }  # fmt: skip
        self.status = 0
        self.headers: dict[str, str] = {}
        self.data = b""
        self.is_over = False
        self.is_slow = False
        self._runner.run(self._begin())

    async def _begin(self) -> None:
        self._gone = asyncio.Event()
        self._task = asyncio.create_task(self._app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): text.decode() for name, text in message["headers"]}
            return
        if self.is_slow:
            await asyncio.sleep(10 * WAIT_S)
        self.data += message.get("body", b"")
        self.is_over = not message.get("more_body", False)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """The names and documents of the events so far."""
        found = []
        for block in self.data.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in fields:
                found.append((fields["event"], json.loads(fields["data"])))
                assert fields.get("id", fields["data"]) in fields["data"]
        return found

    def until(self, condition: Callable[[], bool], seconds: float = WAIT_S) -> None:
        until_s = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until_s, self.data
            self._runner.run(asyncio.sleep(0.01))

    def leave(self) -> None:
        """Go away, as a browser does; the application must end its work then."""

        async def end() -> None:
            self._gone.set()
            await asyncio.wait_for(self._task, WAIT_S)

        self._runner.run(end())


@pytest.fixture
def world(lived_in: Path, tmp_path: Path) -> Path:
    return copied(lived_in, tmp_path / "world")


@pytest.fixture
def browser(world: Path) -> Iterator[Browser]:
    found = Browser(world)
    yield found
    found.close()


@pytest.fixture
def live(browser: Browser) -> str:
    [slug] = browser.worlds._worlds
    return f"/w/{slug}/live"


def send(world: Path, key: str) -> None:
    sent = run("send", puppet.DO, json.dumps({"key": key, "out": None}), "--world", world)
    assert sent.code == 0, sent.err


def test_the_figures_are_those_of_the_list_of_worlds(browser: Browser, live: str) -> None:
    """PG-120"""
    found = browser.get(f"{live}.json").json()
    [row] = browser.get("/.json").json()["worlds"]

    assert found == {
        "record": row["records"],
        **{name: row[name] for name in ("clock_ns", "cells", "failed", "open", "halted")},
    }
    assert found["failed"] > 0
    assert found["open"] > 0


def test_a_stream_begins_with_the_figures_unless_the_browser_has_them(
    browser: Browser, live: str
) -> None:
    """PG-121"""
    figures = browser.get(f"{live}.json").json()
    record = figures["record"]
    for address, headers in (
        (live, {}), (f"{live}?after={record - 1}", {}), (f"{live}?after={record + 5}", {}),
        (f"{live}?after={record}", {"last_event_id": str(record - 2)}),
    ):  # fmt: skip
        stream = Watched(browser, address, **headers)
        stream.until(lambda stream=stream: bool(stream.events))  # type: ignore[misc]
        assert stream.events == [("figures", figures)]
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert dict(HEADERS).items() <= stream.headers.items()
        stream.leave()

    stream = Watched(browser, f"{live}?after=1", last_event_id=str(record))
    browser.wait(3 * live_stream.FIGURES_S)
    assert stream.events == []
    stream.leave()


def test_a_new_record_makes_one_event_and_nothing_makes_none(
    browser: Browser, live: str, world: Path
) -> None:
    """PG-121"""
    record = browser.get(f"{live}.json").json()["record"]
    stream = Watched(browser, f"{live}?after={record}")

    send(world, "newest")
    stream.until(lambda: len(stream.events) == 1)
    browser.wait(3 * live_stream.FIGURES_S)

    [(name, found)] = stream.events
    assert (name, found["record"]) == ("figures", record + 1)
    stream.leave()


def test_there_are_at_most_four_events_a_second_however_much_happens(
    browser: Browser, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-121: all streams of a world share one reading of it."""
    assert live_stream.FIGURES_S == 0.25
    readings = 0

    async def now(self: Any) -> dict[str, Any]:
        nonlocal readings
        async with self._reading:
            if time.monotonic() - self._read_s >= live_stream.FIGURES_S:
                readings += 1
                self._read_s = time.monotonic()
            return {"record": readings}

    browser.get(f"{live}.json")
    monkeypatch.setattr(live_stream.SharedFigures, "now", now)
    streams = [Watched(browser, live) for _ in range(10)]
    began_s = time.monotonic()
    browser.wait(1.1)
    for stream in streams:
        stream.until(lambda stream=stream: len(stream.events) >= 2)  # type: ignore[misc]
    most = (time.monotonic() - began_s) / live_stream.FIGURES_S + 2

    assert 2 <= readings <= most
    assert all(len(stream.events) <= most for stream in streams)
    for stream in streams:
        stream.leave()


def test_a_stream_without_news_says_that_it_is_alive(
    browser: Browser, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-121"""
    monkeypatch.setattr(live_stream, "ALIVE_S", 0.0)
    record = browser.get(f"{live}.json").json()["record"]

    stream = Watched(browser, f"{live}?after={record}")
    stream.until(lambda: stream.data.count(b"event: alive\ndata:\n\n") >= 2)

    assert stream.events == []
    stream.leave()


def test_a_browser_that_does_not_read_gets_no_queue_and_resumes(
    browser: Browser, live: str, world: Path
) -> None:
    """PG-122: it is disconnected as N-143 says."""
    record = browser.get(f"{live}.json").json()["record"]
    stream = Watched(browser, f"{live}?after={record}")
    stream.until(lambda: stream.data.startswith(b":\n\n"))
    stream.is_slow = True

    for number in range(3):
        send(world, f"unread {number}")
        browser.wait(2 * live_stream.FIGURES_S)
    stream.leave()

    assert stream.events == []
    assert browser.app._live.open == 0
    again = Watched(browser, live, last_event_id=str(record))
    again.until(lambda: bool(again.events))
    assert [each["record"] for _, each in again.events] == [record + 3]
    again.leave()


def test_too_many_streams_are_refused_and_one_that_ends_makes_room(
    browser: Browser, live: str
) -> None:
    """PG-122"""
    streams = [Watched(browser, live) for _ in range(STREAMS_MAX)]
    for each in streams:
        each.until(lambda each=each: bool(each.data))  # type: ignore[misc]

    refused = browser.get(live)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert "32 live pages are open already: close one" in refused.text
    assert browser.get(live.removesuffix("live")).status_code == 200
    streams.pop().leave()
    streams.append(Watched(browser, live))
    streams[-1].until(lambda: bool(streams[-1].data))
    assert streams[-1].status == 200
    for each in streams:
        each.leave()
    assert browser.app._live.open == 0


def test_a_stream_ends_with_its_world_and_says_why(
    browser: Browser, live: str, world: Path
) -> None:
    """PG-123"""
    stream = Watched(browser, live)
    stream.until(lambda: bool(stream.events))

    shutil.rmtree(world)
    init_world(world)
    stream.until(lambda: stream.is_over)

    name, found = stream.events[-1]
    assert name == "ended"
    assert "another world is in this folder now" in found["problem"]
    assert browser.get(live).status_code == 410


def test_an_older_copy_of_the_world_is_news(browser: Browser, live: str, world: Path) -> None:
    """PG-123: the head is another one, although it is an earlier one."""
    aside = copied(world, world.parent / "aside")
    send(world, "later")
    record = browser.get(f"{live}.json").json()["record"]
    stream = Watched(browser, f"{live}?after={record}")
    stream.until(lambda: stream.data.startswith(b":\n\n"))

    shutil.rmtree(world)
    aside.rename(world)
    stream.until(lambda: bool(stream.events))

    assert stream.events == [("figures", browser.get(f"{live}.json").json())]
    assert stream.events[0][1]["record"] < record
    stream.leave()


def test_malformed_requests_for_a_stream_are_refused(browser: Browser, live: str) -> None:
    """PG-121, PG-22"""
    for query in ("after=x", "after=0", "after=-1", "after=1&after=2", "since=1", f"after={2**63}"):
        assert browser.get(f"{live}?{query}").status_code == 400, query
    for text in ("x", "-1", "1.2", "9" * 19, ""):
        assert browser.get(live, **{"last-event-id": text}).status_code == 400, text
    assert browser.ask("HEAD", live).headers["content-type"][:17] == "text/event-stream"
    assert browser.ask("POST", live).status_code == 405
    locked = Browser(
        *(world.user_path for world in browser.worlds._worlds.values()), needs_token=True
    )
    try:
        assert locked.get(live).status_code == 401
    finally:
        locked.close()


def test_a_bundle_has_no_stream(lived_in: Path, tmp_path: Path) -> None:
    """PG-124"""
    bundle = tmp_path / "world.aos"
    export_world(lived_in, bundle)
    browser = Browser(bundle)
    try:
        [slug] = browser.worlds._worlds
        answer = browser.get(f"/w/{slug}/live")
        assert answer.status_code == 404
        assert "a bundle does not change" in answer.text
    finally:
        browser.close()


def test_only_pages_of_the_world_as_it_is_now_have_a_stream(
    browser: Browser, live: str, lived_in: Path
) -> None:
    """PG-124"""
    base = live.removesuffix("live")
    record = browser.get(f"{live}.json").json()["record"]
    mark = f'<body data-stream="{live}" data-record="{record}">'
    for path in ("", "cells", "intents", "faults", "journal", "proposals", "trace/5"):
        assert mark in browser.get(base + path).text, path
    for path in ("?at=9", "cells?at=9", "manifest", "record/5", "search?q=a", "no"):
        assert "data-stream" not in browser.get(base + path).text, path
    assert "data-stream" not in browser.get("/").text


# Over a real connection


class Connections:
    """Connections to a page, which are all closed at the end."""

    def __init__(self, port: int, stack: contextlib.ExitStack) -> None:
        self._port = port
        self._stack = stack

    def ask(self, path: str, *headers: str) -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self._port), timeout=WAIT_S)
        self._stack.enter_context(found)
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", *headers, "", ""]
        found.sendall("\r\n".join(lines).encode())
        return found

    def until_ok(self, path: str, mark: bytes, *headers: str) -> bytes:
        """Ask until the answer is 200, as the server learns of the connections that were closed;
        return it up to ``mark``."""
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            connection = self.ask(path, *headers)
            answer = read_until(connection, mark)
            if answer[:15].split(b" ")[1:2] == [b"200"]:
                return answer
            connection.close()
        raise AssertionError(answer)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data and (part := connection.recv(65_536)):
        data += part
        if b" 503 " in data[:20]:
            break
    return data


def test_many_streams_over_connections_leave_the_page_usable(world: Path, live: str) -> None:
    """PG-122: 200 streams are asked for at the same time; then one is cut, and resumes."""
    with served(world) as origin, contextlib.ExitStack() as stack:
        connections = Connections(int(origin.rpartition(":")[2]), stack)
        streams = [connections.ask(live) for _ in range(200)]
        statuses = [read_until(each, b"\r\n\r\n").split(b" ")[1] for each in streams]

        assert statuses.count(b"200") == STREAMS_MAX
        assert statuses.count(b"503") == 200 - STREAMS_MAX
        for each, status in zip(streams, statuses, strict=True):
            if status == b"503":
                each.close()
        base = live.removesuffix("live")
        page = connections.until_ok(base, b"</html>", "Connection: close")
        assert page.endswith(b"</html>")

        streams[statuses.index(b"200")].close()
        send(world, "news")
        assert b"event: figures" in connections.until_ok(
            live, b"event: figures", "Last-Event-ID: 1"
        )


def test_a_page_names_no_record_that_its_document_does_not_have(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-125: such a page would not be fetched again when the stream has that record."""
    world = copied(lived_in, tmp_path / "world")
    read = PageWorld.list_document

    async def read_before_an_event(
        self: PageWorld, operation: str, query: dict[str, Any]
    ) -> dict[str, Any]:
        document: dict[str, Any] = await read(self, operation, query)
        await asyncio.to_thread(send, world, "late")
        return document

    with contextlib.closing(Browser(world)) as browser:
        [page_world] = browser.worlds._worlds.values()
        address = f"/w/{page_world.slug}/"
        records = browser.get(address + "live.json").json()["record"]
        monkeypatch.setattr(PageWorld, "list_document", read_before_an_event)
        text = browser.get(address).text
        assert f'data-record="{records}"' in text
        assert f"As of record {records:,} " in text
        assert f'data-record="{records + 1}"' in browser.get(address).text
