"""A client of the page in this process, and a strict reader of what it answers."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx

from aos.host.folder.reader import open_reader
from aos.host.stamps import now_ns
from aos.node.reading import read_document
from aos.page.page_app import PageApp
from aos.page.page_session import PageSession
from aos.page.page_worlds import OPEN_MAX, PageWorlds
from aos.read.views.view import View

HOST = "127.0.0.1:7470"
VOID = {"meta", "link", "input", "br", "img", "hr"}
SCRIPT = "/static/page.js"
"""The only script that a page may have."""

SVG_EMPTY = {"path", "rect", "circle", "line", "polyline", "polygon"}
BUSY_MAX = 10
"""So often a list is asked for, which the machine may be too busy to make in its time."""


def patiently(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask for a page; again if a busy machine did not make a list in its time (PG-8)."""
    for _ in range(BUSY_MAX):
        answer = ask()
        if answer.status_code != 503 or "list_takes_too_long" not in answer.text:
            break
    return answer


class Browser:
    """One page in this process, with a loop that lives as long as it does."""

    def __init__(self, *paths: Path, needs_token: bool = False, open_max: int = OPEN_MAX) -> None:
        self._runner = asyncio.Runner()
        self.worlds = PageWorlds(paths, open_max=open_max)
        self.session = PageSession(7470, needs_token=needs_token)
        self.worlds.locate()
        self._runner.run(self.worlds.__aenter__())
        self.app = PageApp(self.worlds, self.session)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a page, as ``patiently`` does."""
        return patiently(lambda: self.ask("GET", path, headers))

    def ask(self, method: str, path: str, headers: Mapping[str, str] = {}) -> httpx.Response:
        return self._runner.run(self._ask(method, path, headers))

    async def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, path, headers=dict(headers))

    def wait(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def raw(self, scope: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages of the app for an ASGI scope that no client would make."""
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        self._runner.run(self.app({**scope}, receive, send))
        return sent

    def close(self) -> None:
        self._runner.run(self.worlds.__aexit__())
        self._runner.close()


class ReadersHere:
    """Makes long documents in this process, where a test can stop the clock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def document(self, operation: str, query: Any, _work: Any) -> dict[str, Any]:
        with open_reader(self._path, at=query.get("at")) as reader:
            at_ns = None if "at" in query else now_ns()
            view = View(reader.state, reader.store, now_ns=at_ns, is_past="at" in query)
            return read_document(view, operation, query)

    async def close(self) -> None:
        pass


@dataclass
class Seen:
    """The links of a page, its text, and the command that it names."""

    links: list[str] = field(default_factory=list)
    text: str = ""
    tags: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    @property
    def command(self) -> list[str] | None:
        found = [each for each in self.codes if each.startswith("aos ")]
        return shlex.split(found[-1]) if found else None


class _Reader(HTMLParser):
    """Refuses what a browser would have to guess or must not run; text in a script is foreign."""

    def __init__(self, root: str) -> None:
        super().__init__(convert_charrefs=True)
        self._script = [("type", "module"), ("src", root + SCRIPT)]
        self.open: list[str] = []
        self.seen = Seen()
        self._code: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("style", "iframe", "object", "embed", "base"), tag
        assert tag != "script" or attrs == self._script, attrs
        self.seen.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"<{tag} {name}>"
            assert name != "style", tag
            if name in ("href", "src", "action"):
                assert value is not None
                assert value.startswith(("/", "#")), value
                if tag == "a":
                    self.seen.links.append(value)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "code":
            self._code = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_EMPTY, tag
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}>: {self.open}"
        if tag == "code":
            self.seen.codes.append("".join(self._code or []))
            self._code = None

    def handle_data(self, data: str) -> None:
        assert self.open[-1:] != ["script"], data
        self.seen.text += data
        if self._code is not None:
            self._code.append(data)


def read_page(answer: httpx.Response, root: str = "") -> Seen:
    """Read a page strictly: every tag is closed, nothing runs, every address is ours. ``root`` is
    the address of a mounted world."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    reader = _Reader(root)
    reader.feed(answer.text)
    reader.close()
    assert reader.open == [], reader.open
    return reader.seen


def crawled(page: Browser, base: str) -> dict[str, str]:
    """Every address below ``base`` that a link leads to, with the link's page."""
    found = {base: "/"}
    todo = [base]
    while todo:
        address = todo.pop()
        answer = page.get(address)
        is_gone = answer.status_code == 404 and "or it was deleted" in answer.text
        assert answer.status_code in (200, 303) or is_gone, (address, found[address], answer.text)
        if answer.status_code == 303 or answer.headers["content-type"][:9] != "text/html":
            continue
        for link in read_page(answer).links:
            if link.startswith(base) and ".json" not in link and link not in found:
                found[link] = address
                todo.append(link)
    return found
