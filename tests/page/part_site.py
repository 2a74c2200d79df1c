"""The page over worlds with parts, read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

from tests.page.browser import Browser, Seen, read_page

TAG: Final = re.compile("<[^>]*>")


class PartSite:
    """The page over some worlds, each named by its folder."""

    def __init__(self, *paths: Path) -> None:
        self.browser = Browser(*paths)
        self.paths = paths
        rows = self.browser.get("/.json").json()["worlds"]
        self.bases = {Path(each["path"]).name: each["address"] for each in rows}

    def seen(self, world: str, path: str, status: int = 200) -> Seen:
        answer = self.browser.get(f"{self.bases[world]}{path}")
        assert answer.status_code == status, answer.text
        return read_page(answer)

    def text(self, world: str, path: str, status: int = 200) -> str:
        """The text of a page, its cells and terms apart by one space."""
        answer = self.browser.get(f"{self.bases[world]}{path}")
        assert answer.status_code == status, answer.text
        read_page(answer)
        return " ".join(unescape(TAG.sub(" ", answer.text)).split())

    def parts(self, base: str) -> Iterator[tuple[str, Seen]]:
        """Every page of flows and linear instances that a link leads to from the overview."""
        todo, known = [base], {base}
        while todo:
            address = todo.pop()
            answer = self.browser.get(address)
            assert answer.status_code == 200, (address, answer.text)
            seen = read_page(answer)
            if address != base:
                yield address, seen
            for link in seen.links:
                kind = link.removeprefix(base).partition("?")[0].split("/")[0]
                if kind in ("flow", "flows", "linear") and link not in known:
                    known.add(link)
                    if ".json" not in link:
                        todo.append(link)

    def document(self, world: str, path: str) -> Any:
        path, _, query = path.partition("?")
        return self.browser.get(f"{self.bases[world]}{path}.json?{query}").json()
