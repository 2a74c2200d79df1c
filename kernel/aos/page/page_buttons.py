"""The buttons that the pages of a node have (spec/page.md, PG-60): links to its forms.

cell.html    buttons.of_cell(document)     [("Retry…", "/w/…/retry"), ("Skip…", "/w/…/skip")]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from aos.core.journal.faults import FROM_OUTSIDE, FaultKind
from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN
from aos.manifest.builtins import KERNEL_EFFECTS
from aos.page.page_links import PageLinks


class PageButton(NamedTuple):
    """A link to a form."""

    text: str
    address: str


class PageButtons:
    """The buttons of one page, for a caller who may operate. ``signs`` is whether the node has a
    key of an operator, without which it submits no command."""

    def __init__(self, links: PageLinks, *, signs: bool) -> None:
        self._links = links
        self._signs = signs

    def of_cell(self, found: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a cell, from its document or from its row in a list of faults."""
        fault = found if "advice" in found else found["fault"]
        actions = [] if fault is None else [(RETRY, "Retry")]
        if fault is not None and FaultKind(fault["kind"]) not in FROM_OUTSIDE:
            actions.append((SKIP, "Skip the entry"))
        if found.get("version", {}).get("is_pinned"):
            actions.append((UNPIN, "Unpin"))
        address = self._links.cell_now(found["workflow"], found["key"])
        if address is None or not self._signs:
            return []
        return [PageButton(f"{text}…", f"{address}/{action}") for action, text in actions]

    def of_intent(self, found: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of an effect."""
        if found["settled_record"] is not None or found["opened_ns"] is None:
            return []
        address = self._links.intent(found["intent"])
        buttons = []
        if found["halt"] is not None:
            buttons.append(PageButton("Run it again…", f"{address}/retry"))
        if self._signs and found["effect"] not in KERNEL_EFFECTS and not found["settlements"]:
            buttons.append(PageButton("Cancel…", f"{address}/{CANCEL}"))
        return buttons
