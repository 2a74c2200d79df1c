"""The buttons that the pages of a node have (spec/page.md, PG-60): links to its forms.

    cell.html    buttons.of_cell(document)     [("Retry…", "/w/…/retry"), ("Skip…", "/w/…/skip")]

The filters of a list of failed cells are one condition, with which a batch selects the same cells
(PG-67; search.md SE-1):

    fault=trap&key_prefix=o-&where=total > 9 order by total
        ──▶ fault = trap and key ^= "o-" and total > 9 order by total
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aos.core.journal.faults import FROM_OUTSIDE, FaultKind
from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN
from aos.host.door.following import STANDBY
from aos.manifest.names import KERNEL_EFFECTS
from aos.node.batches.batch import RUNNING
from aos.page.page_links import PageLinks
from aos.read.where.condition import parse

CELLS_ONLY: Final = ("waits_for", "older_than")
"""Filters of a list of cells that no condition has."""

MESSAGE_BYTES_MAX: Final = 300
"""The beginning of a longer message must do: a condition has at most 1,024 bytes."""


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

    def of_cell(self, cell: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a cell, from its document or from its row in a list of faults."""
        fault = cell if "advice" in cell else cell["fault"]
        actions = [] if fault is None else [(RETRY, "Retry")]
        if fault is not None and FaultKind(fault["kind"]) not in FROM_OUTSIDE:
            actions.append((SKIP, "Skip the entry"))
        if cell.get("version", {}).get("is_pinned"):
            actions.append((UNPIN, "Unpin"))
        address = self._links.cell_now(cell["workflow"], cell["key"])
        if address is None or not self._signs:
            return []
        return [PageButton(f"{text}…", f"{address}/{action}") for action, text in actions]

    def of_intent(self, intent: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of an effect."""
        if intent["settled_record"] is not None or intent["opened_ns"] is None:
            return []
        address = self._links.intent(intent["intent"])
        buttons = self.of_halted(intent["intent"]) if intent["halt"] is not None else []
        if self._signs and intent["effect"] not in KERNEL_EFFECTS and not intent["settlements"]:
            buttons.append(PageButton("Cancel…", f"{address}/{CANCEL}"))
        return buttons

    def of_halted(self, intent: str) -> list[PageButton]:
        """Return the buttons of a held or parked effect in a list."""
        return [PageButton("Run it again…", f"{self._links.intent(intent)}/retry")]

    def of_list(self, list_query: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a list of cells, if its filters select failed ones alone and a
        batch can have them."""
        is_failed = list_query.get("status") == "failed" or list_query.get("fault")
        if not is_failed or any(list_query.get(name) for name in CELLS_ONLY):
            return []
        return self._of_all(list_query, condition_of_list(list_query), (RETRY, SKIP))

    def of_group(self, list_query: Mapping[str, Any], row: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of the faults of a list that are like one of its rows."""
        where_text = condition_of_group(list_query, row["kind"], row["message"])
        is_by_entry = FaultKind(row["kind"]) not in FROM_OUTSIDE
        return self._of_all(list_query, where_text, (RETRY, SKIP) if is_by_entry else (RETRY,))

    def of_batch(self, batch: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a batch."""
        if batch["status"] != RUNNING:
            return []
        return [PageButton("Stop…", f"{self._links.batch(batch['id'])}/stop")]

    def of_node(self, world: Mapping[str, Any], node: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a node of the world: those of nodes that can own it now."""
        if node["role"] != STANDBY or node["is_silent"] or world["moving_to"] == node["node"]:
            return []
        return [PageButton("Move the world here…", self._links.move(node["node"]))]

    def of_member(self, member: Mapping[str, Any]) -> list[PageButton]:
        """Return the buttons of a member."""
        text = "End the drain…" if member["draining"] else "Drain…"
        return [PageButton(text, self._links.drain(member["name"]))]

    def of_kept(self, world: Mapping[str, Any]) -> list[PageButton]:
        """Return the button that ends an earlier move."""
        if world["kept_at"] is None:
            return []
        return [PageButton("Let the members place it again…", self._links.to("/cluster/undo"))]

    def _of_all(
        self, list_query: Mapping[str, Any], where_text: str, actions: Sequence[str]
    ) -> list[PageButton]:
        if not self._signs:
            return []
        query = {"workflow": list_query.get("workflow"), "where": where_text}
        return [
            PageButton(_OF_ALL[action], self._links.to(f"/cells/{action}", **query))
            for action in actions
        ]


_OF_ALL: Final = {RETRY: "Retry all…", SKIP: "Skip the entries of all…"}


def joined(where_text: str | None, terms: Sequence[str]) -> str:
    """Return a condition with more terms before its own, so that its order stays last.

    Raises:
        WhereInvalid: ``where_text`` is not a condition.
    """
    stripped_text = (where_text or "").strip()
    if not stripped_text:
        return " and ".join(terms)
    if not terms:
        return stripped_text
    parsed = parse(stripped_text)
    condition, order = parsed.condition, stripped_text[len(parsed.condition) :].strip()
    if condition:
        terms = [*terms, f"({condition})" if parsed.is_choice else condition]
    return " ".join([" and ".join(terms), *([order] if order else [])])


def condition_of_list(list_query: Mapping[str, Any]) -> str:
    """Return the filters of a list of cells, but its workflow and its status; empty without any."""
    terms = []
    if list_query.get("fault"):
        terms.append(f"fault = {list_query['fault']}")
    if list_query.get("key_prefix"):
        terms.append(f"key ^= {_quoted(list_query['key_prefix'])}")
    if list_query.get("pinned"):
        terms.append("pinned = true")
    return joined(list_query.get("where"), terms)


def condition_of_group(list_query: Mapping[str, Any], kind: str, message: str) -> str:
    """Return the filters of a list of faults, but its workflow, for one kind and message."""
    begin = message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    operator = "=" if begin == message else "^="
    terms = [f"fault = {kind}", f"fault_message {operator} {_quoted(begin)}"]
    return joined(list_query.get("where"), terms)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
