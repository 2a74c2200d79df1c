"""Name a cell in the output of writing commands: its workflow, and its key as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from aos.core.journal.records import CellId
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json, name_cell


@dataclass(frozen=True, slots=True)
class NamedCell:
    """A cell by its name in a world of this machine or of a node.

    ``key`` is JSON; None for the only cell of a workflow without keys. ``id`` is None in the world
    of a node.
    """

    workflow: str
    key: object
    id: CellId | None = None

    @property
    def text(self) -> str:
        """The cell as text, such as ``shop/order@1 ord-1``."""
        return name_cell(self.workflow, self.key)

    @property
    def document(self) -> dict[str, object]:
        """``{workflow, key}``"""
        return {"workflow": self.workflow, "key": self.key}


def named_cell(cell: CellId, manifest: Effective | None) -> NamedCell:
    """Name a cell; the key uses the schema of the workflow, if the manifest has it."""
    return NamedCell(cell[0], cell_key(cell, manifest), cell)


def cell_document(cell: CellId, manifest: Effective | None) -> dict[str, object]:
    """``{workflow, key}``; the key uses the schema of the workflow, if the manifest has it."""
    return {"workflow": cell[0], "key": cell_key(cell, manifest)}


def cell_text(cell: CellId, manifest: Effective | None) -> str:
    """The cell as text, such as ``shop/order@1 ord-1``."""
    return name_cell(cell[0], cell_key(cell, manifest))


def cell_key(cell: CellId, manifest: Effective | None) -> object:
    """The key as JSON; None for the only cell of a workflow without keys."""
    name, key = cell
    if not key:
        return None
    workflow = manifest.workflows.get(name) if manifest else None
    return as_json(workflow.key if workflow else None, key)
