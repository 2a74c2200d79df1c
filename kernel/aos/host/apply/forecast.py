"""Forecast how many instances a new manifest would affect, and how (spec/host.md, H-71)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aos.core.decide.left_behind import misfits_under
from aos.core.decide.quiescence import Change, migrates
from aos.core.journal.inputs import PIN
from aos.core.journal.ports import BlobReader
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import is_in_flight, stays

GOES_ON = "goes_on"
"""Idle: its next event runs under the new manifest."""
PINNED = "pinned"
"""In flight: it stays pinned to its present manifest until it is done."""
KEPT = "kept"
"""Finished: it stays with its present manifest, because its state does not fit the new one."""
IN_PLACE = "in_place"
"""In flight: its next step runs under the new manifest."""
MIGRATED = "migrated"
"""The new module migrates its state, in flight or not."""
WAITED_FOR = "waited_for"
"""In flight: it blocks the manifest."""
FAILED = "failed"
"""Failed by a fault: a retry continues under the new manifest if the cell fits it."""
LEFT = "left"
"""Its workflow is removed: the cell is kept but receives nothing."""
FATES = (GOES_ON, PINNED, KEPT, IN_PLACE, MIGRATED, WAITED_FOR, FAILED, LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Number of instances by workflow and fate."""

    by_workflow: Mapping[str, Mapping[str, int]]

    def of(self, fate: str) -> int:
        """Return the number of instances of all workflows with this fate, one of ``FATES``."""
        return sum(counts.get(fate, 0) for counts in self.by_workflow.values())


def fates(state: State, change: Change, read: BlobReader) -> Fates:
    """Forecast the fate of every cell. Reads states only where they decide it.

    Raises:
        Damage: A stored state cannot be read.
    """
    counts: dict[str, Counter[str]] = {}
    if state.manifest is not None:
        for cell in state.cells.values():
            counts.setdefault(cell.id[0], Counter())[_fate(state, change, cell, read)] += 1
    return Fates(by_workflow=counts)


def _fate(state: State, change: Change, cell: Cell, read: BlobReader) -> str:
    in_flight, name = is_in_flight(state, cell), cell.id[0]
    if migrates(state, change, cell, read):
        return MIGRATED
    if change.moves(name):
        return IN_PLACE if in_flight else FAILED if cell.fault is not None else GOES_ON
    if change.mode == PIN and stays(state, cell):
        return PINNED
    if in_flight:
        return WAITED_FOR
    if cell.fault is not None:
        return FAILED
    if change.mode == PIN and misfits_under(state, cell, change.effective, read):
        return KEPT
    return GOES_ON if name in change.effective.workflows else LEFT
