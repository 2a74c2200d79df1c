"""A real browser for tests, driven in an environment of its own (``make browser``)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.page.in_browser.system_browser import system_browser
from tests.tools import missing

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / ".venv" / "browser"
AXE: Final = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
DRIVER: Final = Path(__file__).parent / "drive.py"


class BrowserError(Exception):
    """The browser could not do what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The content of a window: ``text`` as it is seen, ``content`` with what is hidden. ``width``
    is that of the page, ``view`` that of the window. ``happened`` is what no page may do."""

    url: str
    title: str
    text: str
    content: str
    links: list[str]
    width: int
    view: int
    height: int
    happened: list[str]
    ran: str | None
    status: int | None = None


class Chromium:
    """One browser with one window."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [FOLDER / "bin" / "python", DRIVER, program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def window(
        self,
        width: int = 1280,
        height: int = 900,
        *,
        is_dark: bool = False,
        has_scripts: bool = True,
    ) -> None:
        """Open a new window without cookies, in place of the last one."""
        self._ask("window", width=width, height=height, is_dark=is_dark, has_scripts=has_scripts)

    def visit(self, url: str) -> Sight:
        """Go to a page."""
        return Sight(**self._ask("visit", url=url))

    def look(self) -> Sight:
        """Return the content of the window now."""
        return Sight(**self._ask("look"))

    def click(self, selector: str) -> None:
        """Click the first visible match with the mouse."""
        self._ask("click", selector=selector)

    def follow(self, selector: str | None = None) -> Sight:
        """Click the first visible match, or press Enter; return the content of the next page."""
        return Sight(**self._ask("follow", selector=selector))

    def press(self, key: str) -> None:
        """Press a key of the keyboard."""
        self._ask("press", key=key)

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self._ask("type", text=text)

    def evaluate(self, code: str, argument: object = None) -> Any:
        """The value of a function of JavaScript; the driver runs it, in spite of the policy."""
        return self._ask("evaluate", code=code, argument=argument)

    def shot(self, path: Path, *, is_whole: bool = True) -> None:
        """Write a picture of the page, or of the part that the window shows."""
        self._ask("shot", path=str(path), is_whole=is_whole)

    def _ask(self, what: str, **given: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BrowserError("the driver ended: see stderr")
        found = json.loads(line)
        if "error" in found:
            raise BrowserError(found["error"])
        return found["found"]

    def close(self) -> None:
        """End the driver, and with it the browser."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def browser() -> Iterator[Chromium]:
    """A browser; without one, the test is skipped loudly."""
    program = system_browser()
    if program is None:
        missing("there is no Chromium on the PATH, so no browser looks at the page")
    if not (FOLDER / ".ready").exists():
        missing("playwright is not installed, so no browser looks at the page: make browser")
    found = Chromium(program)
    try:
        yield found
    finally:
        found.close()
