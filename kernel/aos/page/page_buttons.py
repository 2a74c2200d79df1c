"""The buttons that the pages of a node have (spec/page.md, PG-60): links to its forms.

cell.html    buttons.of_cell(document)     [("Retry…", "/w/…/retry"), ("Skip…", "/w/…/skip")]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aos.core.journal.faults import FROM_OUTSIDE, FaultKind
from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN
from aos.manifest.builtins import KERNEL_EFFECTS
from aos.page.page_links import PageLinks

_CELLS_ONLY: Final = ("waits_for", "older_than")
"""Filters of the list of cells that a batch does not have."""


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

    def of_kind(self, kind: str, given: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of all cells with faults of one kind, within the filters of a list."""
        return self._of_cells({**given, "fault": kind})

    def of_list(self, given: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a list of cells, if its filters select failed ones alone and are
        those of a batch."""
        is_failed = given.get("status") == "failed" or given.get("fault")
        if not is_failed or any(given.get(name) for name in _CELLS_ONLY):
            return []
        return self._of_cells(given)

    def _of_cells(self, given: Mapping[str, Any]) -> list[PageButton]:
        if not self._signs or given.get("at"):
            return []
        query = {"workflow": given.get("workflow"), "where": condition(given)}
        return [
            PageButton(text, self._links.to("/batch", action=action, **query))
            for action, text in ((RETRY, "Retry all…"), (SKIP, "Skip an entry of all…"))
        ]


def condition(given: Mapping[str, Any]) -> str | None:
    """Return the filters of a list of cells, but its workflow, as one condition (``search.md``
    SE-1)."""
    terms = []
    if given.get("fault"):
        terms.append(f"fault = {json.dumps(given['fault'])}")
    if given.get("key_prefix"):
        terms.append(f"key ^= {json.dumps(given['key_prefix'], ensure_ascii=False)}")
    if given.get("pinned"):
        terms.append("pinned = true")
    where = (given.get("where") or "").strip()
    own = " and ".join(terms)
    if where.lower().startswith("order "):
        return f"{own} {where}".strip()
    return " and ".join(filter(None, (own, where))) or None
