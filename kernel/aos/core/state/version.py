"""Find the manifest that a cell runs under (spec/kernel.md, K-61a, K-72 to K-75).

An instance is *in flight* while a strict apply would wait for it. If an operator applies a manifest
with ``pin``, the instances in flight are *pinned*: they keep running under the manifest under which
they came in flight, until they are done. The apply writes nothing to the cells: each cell records
the manifest under which it came in flight, and the rest is computed from that.
"""

from __future__ import annotations

from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import TERMINAL
from aos.core.state.cell import Cell
from aos.core.state.eras import Era
from aos.core.state.state import State
from aos.manifest.effective import Effective, Workflow


def home(state: State, cell: Cell) -> int:
    """The record of the manifest under which the cell came in flight, or of a later one that its
    workflow took in place."""
    eras = state.eras.all
    if len(eras) == 1:
        return state.manifest_seq
    seq = _home_among(eras, cell)
    # The same document is in force again: the two eras need not be told apart.
    same = next(era.manifest for era in eras if era.seq == seq) == eras[-1].manifest
    return state.manifest_seq if same else seq


def _home_among(eras: tuple[Era, ...], cell: Cell) -> int:
    seq = max(cell.version, eras[0].seq)
    for era in eras:
        if era.seq > seq and cell.id[0] in era.in_place:
            seq = era.seq
    return seq


def is_terminal(state: State, cell: Cell) -> bool:
    """Whether this instance is complete, according to its workflow's ``lifecycle``."""
    if cell.status in TERMINAL:
        return True
    workflow = workflow_under(state, cell.id, home(state, cell))
    if workflow is not None and workflow.lifecycle == "explicit":
        return False
    return not cell.mailbox and not cell.inflight


def is_in_flight(state: State, cell: Cell) -> bool:
    """Whether a strict apply waits for the cell (K-70): it is not terminal, or it has open intents
    or mail to run."""
    if cell.inflight or not is_terminal(state, cell):
        return True
    return bool(cell.mailbox) and cell.fault is None


def stays(state: State, cell: Cell) -> bool:
    """Whether the cell's next entry runs under its own manifest, even if that is not in force."""
    if is_in_flight(state, cell) or (cell.is_kept and cell.version >= state.eras.all[0].seq):
        return True
    return cell.fault_seq is not None and _failed_pinned(state, cell, cell.fault_seq)


def _failed_pinned(state: State, cell: Cell, at: int) -> bool:
    """Whether the cell failed at record ``at`` under another manifest than the one in force."""
    eras = tuple(era for era in state.eras.all if era.seq <= at)
    if not eras or cell.version > at:
        return False  # it failed before the oldest era, or got another manifest since
    manifests = {era.seq: era.manifest for era in eras}
    return manifests[_home_among(eras, cell)] != eras[-1].manifest


def runs_under(state: State, cell: Cell) -> int:
    """The record of the manifest under which the cell's next entry runs."""
    if state.eras.is_one:
        return state.manifest_seq
    return home(state, cell) if stays(state, cell) else state.manifest_seq


def is_pinned(state: State, cell: Cell) -> bool:
    """Whether the cell runs under another manifest than the one in force (K-72)."""
    return not state.eras.is_one and runs_under(state, cell) != state.manifest_seq


def manifest_under(state: State, seq: int) -> Effective:
    """The manifest that record ``seq`` put in force; it must be one of the eras."""
    return state.effective if seq == state.manifest_seq else state.eras.at(seq)


def workflow_under(state: State, id: CellId, seq: int) -> Workflow | None:
    if state.manifest is None:
        return None
    return manifest_under(state, seq).workflows.get(id[0])


def writer_of(state: State, id: CellId) -> Workflow | None:
    """The workflow under which a cell came in flight: its version wrote the cell's state. None if
    there is no such cell, or its manifest has no such workflow."""
    cell = state.cells.get(id)
    return None if cell is None else workflow_under(state, id, home(state, cell))


def workflow_of(state: State, cell: Cell) -> Workflow | None:
    """The workflow that the cell's next entry runs. None if nothing pins the cell and the manifest
    in force no longer has the workflow."""
    return workflow_under(state, cell.id, runs_under(state, cell))


def mark(state: State, seq: int) -> int:
    """The ``version`` of a cell that comes in flight under the manifest of record ``seq``."""
    return 0 if state.eras.is_one else seq
