"""The buttons that the pages of a node have (spec/page.md, PG-60): links to its forms.

cell.html    buttons.of_cell(document)     [("Retry…", "/w/…/retry"), ("Skip…", "/w/…/skip")]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aos.core.journal.faults import FROM_OUTSIDE, FaultKind
from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN
from aos.manifest.builtins import KERNEL_EFFECTS
from aos.node.batches.batch import RUNNING
from aos.page import batch_condition
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
        buttons = self.of_halted(found["intent"]) if found["halt"] is not None else []
        if self._signs and found["effect"] not in KERNEL_EFFECTS and not found["settlements"]:
            buttons.append(PageButton("Cancel…", f"{address}/{CANCEL}"))
        return buttons

    def of_halted(self, intent: str) -> list[PageButton]:
        """Return the buttons of a held or parked effect in a list."""
        return [PageButton("Run it again…", f"{self._links.intent(intent)}/retry")]

    def of_list(self, given: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a list of cells, if its filters select failed ones alone and a
        batch can have them."""
        is_failed = given.get("status") == "failed" or given.get("fault")
        if not is_failed or any(given.get(name) for name in batch_condition.CELLS_ONLY):
            return []
        return self._of_all(given, batch_condition.of_list(given), (RETRY, SKIP))

    def of_group(self, given: Mapping[str, Any], row: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of the faults of a list that are like one of its rows."""
        where = batch_condition.of_group(given, row["kind"], row["message"])
        is_by_entry = FaultKind(row["kind"]) not in FROM_OUTSIDE
        return self._of_all(given, where, (RETRY, SKIP) if is_by_entry else (RETRY,))

    def of_batch(self, found: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a batch."""
        if found["status"] != RUNNING:
            return []
        return [PageButton("Stop…", f"{self._links.batch(found['id'])}/stop")]

    def _of_all(
        self, given: Mapping[str, Any], where: str, actions: Sequence[str]
    ) -> list[PageButton]:
        if not self._signs:
            return []
        query = {"workflow": given.get("workflow"), "where": where}
        return [
            PageButton(_OF_ALL[action], self._links.to(f"/cells/{action}", **query))
            for action in actions
        ]


_OF_ALL: Final = {RETRY: "Retry all…", SKIP: "Skip the entries of all…"}
