"""A browser of a node's page that opens forms and presses their buttons."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from tests.cli.shell import here
from tests.node.nodes import WAIT_S
from tests.page.browser import patiently, read_page

_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


def made(path: Path, name: str, *scopes: str) -> str:
    """The secret of a new token."""
    words = [word for scope in scopes for word in ("--scope", scope)]
    found = here("token", "create", name, *words, "--json", "-w", path)
    assert found.code == 0, found.err
    return str(found.json["token"])


@dataclass
class FormBrowser:
    """One browser at the node ``url``. Its POSTs come from the page itself."""

    url: str
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=WAIT_S, trust_env=False, verify=False)

    def close(self) -> None:
        self.client.close()

    def open(self, secret: str) -> FormBrowser:
        """Enter a token."""
        fields = hidden(self.client.get("/open"))
        found = self.post("/open", fields | {"token": secret})
        assert found.status_code == 303, found.text
        return self

    @property
    def base(self) -> str:
        """The address of the world's pages."""
        return str(self.client.get("/.json").json()["worlds"][0]["address"]).rstrip("/")

    def get(self, address: str) -> httpx.Response:
        return patiently(lambda: self.client.get(address))

    def post(self, address: str, fields: Any, **headers: str) -> httpx.Response:
        return self.client.post(address, data=fields, headers={"origin": self.url} | headers)

    def form(self, address: str) -> dict[str, str]:
        """The fields of the form at ``address``, whose page is well-formed."""
        found = self.get(address)
        assert found.status_code == 200, found.text
        read_page(found)
        return hidden(found)

    def press(self, address: str) -> httpx.Response:
        return self.post(address, self.form(address))


def hidden(page: httpx.Response) -> dict[str, str]:
    return {name: unescape(value) for name, value in _HIDDEN.findall(page.text)}


def buttons(page: httpx.Response) -> dict[str, str]:
    """The links to forms of a page, by their text."""
    found = re.findall(r'<a class="action" href="([^"]+)">([^<]+)</a>', page.text)
    return {unescape(text): unescape(address) for address, text in found}
