"""The items of a batch: the cells, or the open effects, that it acts on (spec/batch.md, BA-2).

They are listed in a reader process, once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from aos.audit.lens.lookup import find_effect
from aos.audit.views.cell_selection import CellSelection
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.errors import BadUsage
from aos.node.batches.batch import CANCEL_EFFECTS
from aos.values.digests import Hash

ITEMS_MAX: Final = 100_000
"""Items of one batch."""


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A cell; or with ``intent``, an open effect of it."""

    cell: CellId
    intent: Hash | None = None

    def to_line(self) -> str:
        """Its line in the file of items."""
        key = base64.b64encode(self.cell[1]).decode()
        intent = [] if self.intent is None else [self.intent.hex()]
        return json.dumps([self.cell[0], key, *intent], separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Raises: ValueError: It is not such a line."""
        try:
            workflow, key, *intent = json.loads(line)
            cell = (workflow, base64.b64decode(key, validate=True))
            return cls(cell, Hash(bytes.fromhex(intent[0])) if intent else None)
        except (TypeError, IndexError, AttributeError) as error:
            raise ValueError("not an item") from error


def batch_items(view: View, query: Mapping[str, Any]) -> Document:
    """The items of an order, each as its line: ``{"items": [...]}``. Failed cells come in the order
    of their faults, all others by workflow and key.

    Raises:
        BadUsage: The order names something that the world does not have, or has too many items.
    """
    action = query["action"]
    selection = CellSelection(
        workflow=query.get("workflow"),
        condition=query.get("where"),
        pinned=action == UNPIN,
        aliases=query["aliases"],
    ).resolved(view.state)
    cells = _candidates(view, selection, action)
    selected_cells = sorted((cell for cell in cells if selection.has(view, cell)), key=_by_id)
    if action in (RETRY, SKIP):
        selected_cells.sort(key=lambda cell: cell.fault_seq or 0)
    lines = []
    for item in _items(view, selected_cells, action, query.get("effect")):
        lines.append(item.to_line())
        if len(lines) > ITEMS_MAX:
            raise BadUsage(
                f"a batch has at most {ITEMS_MAX:,} items: select fewer cells with where"
            )
    return {"items": lines}


def _by_id(cell: Cell) -> CellId:
    return cell.id


def _candidates(view: View, selection: CellSelection, action: str) -> Iterator[Cell]:
    """The cells that can be in a batch of this kind. Those at rest have no fault and no effect."""
    if action not in (RETRY, SKIP, CANCEL_EFFECTS):
        yield from selection.candidates(view.state)
        return
    for cell in view.state.cells.active.values():
        if selection.workflow in (None, cell.id[0]) and (
            bool(cell.inflight) if action == CANCEL_EFFECTS else cell.fault is not None
        ):
            yield cell


def _items(
    view: View, cells: Iterable[Cell], action: str, effect: str | None
) -> Iterator[BatchItem]:
    if action != CANCEL_EFFECTS:
        yield from (BatchItem(cell.id) for cell in cells)
        return
    intents = view.state.intents
    name = effect
    if effect is not None:
        name = find_effect(view.state, effect, {intent.effect.name for intent in intents.values()})
    for cell in cells:
        for intent_hash in sorted(cell.inflight):
            if name in (None, intents[intent_hash].effect.name):
                yield BatchItem(cell.id, intent_hash)
