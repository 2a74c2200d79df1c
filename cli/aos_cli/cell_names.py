"""Name a cell in the output of writing commands: its workflow, and its key as JSON."""

from __future__ import annotations

from aos.audit.lens.lens import shown
from aos.audit.views.record_view import name_cell
from aos.core.journal.records import CellId
from aos.manifest.effective import Effective


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
    return shown(workflow.key if workflow else None, key)
