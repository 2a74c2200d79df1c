"""Drive one Chromium by lines of JSON: a request on stdin, its answer on stdout.

It runs in the environment of ``make browser``, without anything of AOS:

    .venv/browser/bin/python tests/page/in_browser/drive.py /usr/bin/chromium-headless-shell
    {"do": "window", "width": 320, "height": 700, "is_dark": true, "has_scripts": true}
    {"do": "visit", "url": "http://127.0.0.1:7470/"}
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (  # type: ignore[import-not-found,unused-ignore]
    Error,
    sync_playwright,
)

WAIT_MS = 30_000
LOOK = """() => ({
  url: location.href, title: document.title, text: document.body.innerText,
  content: document.body.textContent,
  links: [...document.querySelectorAll('a[href]')].map(each => each.getAttribute('href')),
  width: document.documentElement.scrollWidth, view: document.documentElement.clientWidth,
  height: document.documentElement.scrollHeight, ran: window.ran === undefined ? null : 'ran',
})"""


class Driver:
    """One browser with one window. ``happened`` is what no page may do: it runs foreign text, opens
    a dialog, breaks its policy or sends a request to another origin."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._context: Any = None
        self._page: Any = None
        self._origin = ""
        self._happened: list[str] = []

    def window(
        self, *, width: int, height: int, is_dark: bool = False, has_scripts: bool = True
    ) -> None:
        """Open a new window without cookies in place of the last one."""
        if self._context is not None:
            self._context.close()
        self._context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if is_dark else "light",
            java_script_enabled=has_scripts,
            reduced_motion="reduce",
            accept_downloads=False,
        )
        self._page = self._context.new_page()
        self._page.set_default_timeout(WAIT_MS)
        self._context.on("request", self._requested)
        self._page.on("dialog", self._dialog)
        self._page.on("pageerror", lambda error: self._happened.append(f"error: {error}"))
        self._page.on("console", self._said)
        self._page.on("popup", lambda _: self._happened.append("a second window"))

    def _requested(self, request: Any) -> None:
        found = urlsplit(request.url)
        if f"{found.scheme}://{found.netloc}" != self._origin:
            self._happened.append(f"request: {request.url[:200]}")

    def _dialog(self, dialog: Any) -> None:
        self._happened.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _said(self, message: Any) -> None:
        # A status that is no success is written to the console, too.
        if message.type == "error" and "status of" not in message.text:
            self._happened.append(f"console: {message.text[:500]}")

    def visit(self, *, url: str) -> dict[str, Any]:
        """Go to a page; return its content, and everything that happened."""
        found = urlsplit(url)
        self._origin = f"{found.scheme}://{found.netloc}"
        answer = self._page.goto(url)
        return {**self.look(), "status": None if answer is None else answer.status}

    def look(self) -> dict[str, Any]:
        """Return what the window shows now."""
        self._page.wait_for_load_state()
        happened, self._happened = self._happened, []
        return {**self._page.evaluate(LOOK), "happened": happened}

    def evaluate(self, *, code: str, argument: Any = None) -> Any:
        """Return the value of a function of JavaScript."""
        return self._page.evaluate(code, argument)

    def click(self, *, selector: str) -> None:
        """Click the first visible match, as a mouse does."""
        self._page.locator(selector).locator("visible=true").first.click()

    def follow(self, *, selector: str | None = None) -> dict[str, Any]:
        """Click the first visible match, or press Enter; return what the next page shows."""
        with self._page.expect_navigation():
            if selector is None:
                self._page.keyboard.press("Enter")
            else:
                self.click(selector=selector)
        return self.look()

    def press(self, *, key: str) -> None:
        """Press a key."""
        self._page.keyboard.press(key)

    def type(self, *, text: str) -> None:
        """Type into the element that has the focus."""
        self._page.keyboard.type(text)

    def shot(self, *, path: str, is_whole: bool = True) -> None:
        """Write a picture of the page, or of the part that the window shows."""
        self._page.screenshot(path=path, full_page=is_whole)


def main() -> None:
    # Output of the browser must not be read as an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=sys.argv[1], args=options)
        driver = Driver(browser)
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                found = {"found": getattr(driver, asked.pop("do"))(**asked)}
            except Error as error:
                found = {"error": str(error)}
            answers.write(json.dumps(found) + "\n")
            answers.flush()
        browser.close()


if __name__ == "__main__":
    main()
