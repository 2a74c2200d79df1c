"""The first page of a node with many worlds (spec/page.md, PG-140)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aos.page.page_app import static_file
from aos.page.page_headers import RAW
from aos.page.page_text import render
from aos.read.views.record_view import Document


class HostedPage:
    """The list of worlds, as ``ListPage``."""

    headers: Final[Sequence[tuple[bytes, bytes]]] = RAW

    def html(self, rows: Sequence[Document] | None) -> bytes:
        """The page. Without ``rows`` it only asks for the name of a world, whose page asks for a
        token."""
        values = {"title": "Worlds", "rows": rows, "world": None, "at": None}
        return render("hosted_worlds", values)

    def file(self, name: str) -> tuple[bytes, str] | None:
        """A file of the page and its media type; None if it has none of this name."""
        return static_file(name)
