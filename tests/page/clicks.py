"""A reader who knows only what a page shows: follows links and presses buttons by their text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx

from tests.page.browser import read_page
from tests.page.form_browser import FormBrowser


@dataclass
class _Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class _Shown(HTMLParser):
    """The links of a page by their text, and its forms."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[tuple[str, str]] = []
        self.forms: list[_Form] = []
        self._text = ""
        self._href: str | None = None
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag in ("a", "button", "textarea"):
            self._text = ""
        if tag == "a":
            self._href = found["href"]
        elif tag == "form":
            self.forms.append(_Form(found["action"], found["method"]))
        elif tag == "input" and found.get("type") != "checkbox":
            self.forms[-1].fields[found["name"]] = found.get("value", "")
        elif tag == "textarea":
            self._area = found["name"]

    def handle_endtag(self, tag: str) -> None:
        text = " ".join(self._text.split())
        if tag == "a" and self._href is not None:
            self.links.append((text, self._href))
            self._href = None
        elif tag == "button" and self.forms:
            self.forms[-1].buttons.append(text)
        elif tag == "textarea" and self._area is not None:
            self.forms[-1].fields[self._area] = self._text.removeprefix("\n")

    def handle_data(self, data: str) -> None:
        self._text += data


class Clicks:
    """A browser that shows ``page``, whose address is ``address``."""

    def __init__(self, browser: FormBrowser) -> None:
        self.browser = browser
        self.address = "/"
        self.typed: dict[str, str] = {}
        self.visit("/")

    def visit(self, address: str) -> None:
        self._show(self.browser.get(address), address)

    def type(self, **fields: str) -> None:
        """Fill in fields of the form whose button comes next."""
        self.typed = fields

    def click(self, text: str) -> None:
        """Follow the first link with this text, or press the button with it."""
        shown = _Shown()
        shown.feed(self.page.text)
        for name, address in shown.links:
            if name == text:
                self.visit(address)
                return
        for form in shown.forms:
            if text in form.buttons and self.typed.keys() <= form.fields.keys() | {"parked"}:
                fields, self.typed = form.fields | self.typed, {}
                if form.method == "post":
                    self._show(self.browser.post(form.action, fields), form.action)
                else:
                    given = {name: value for name, value in fields.items() if value}
                    found = self.browser.client.get(form.action, params=given)
                    self._show(found, str(found.url.raw_path, "ascii"))
                return
        raise AssertionError(f"{self.address} has no link or button {text!r}: {shown.links}")

    def _show(self, page: httpx.Response, address: str) -> None:
        if page.status_code == 303:
            self.visit(urljoin(address, page.headers["location"]))
            return
        assert page.status_code in (200, 401), (address, page.text)
        read_page(page)
        self.address, self.page = address, page
