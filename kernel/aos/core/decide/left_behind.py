"""Find finished instances that stay with an earlier manifest (spec/kernel.md, K-74a).

A finished instance normally takes the manifest in force with its next event. If its key or state
does not fit there, it is *left behind*: its next entry runs under its own manifest, as an entry of
an instance in flight does. Nothing is written for it until that event, whose record lists it as
``kept``; until then only its stored state tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from aos.core.decide.fits import key_problem, state_problem
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import home, manifest_under, runs_under, stays
from aos.manifest.effective import Effective
from aos.manifest.shapes import Shapes

_COMPARED: Final = 256
"""Number of workflows whose two versions are remembered as compared."""


def kept_of(state: State, targets: Iterable[CellId], read: BlobReader) -> tuple[CellId, ...]:
    """The receivers of an event that are left behind, each once.

    Raises:
        Damage: A stored state or a manifest cannot be read.
    """
    if state.eras.is_one:
        return ()
    receivers: dict[CellId, None] = {}
    for id in targets:
        cell = state.cells.get(id)
        if cell is not None and is_left_behind(state, cell, read):
            receivers[id] = None
    return tuple(receivers)


def next_under(state: State, cell: Cell, read: BlobReader) -> int:
    """The record of the manifest under which the cell's next entry runs, whether mail for it has
    arrived or not. Reads the state if that decides.

    Raises:
        Damage: The state or a manifest cannot be read.
    """
    return home(state, cell) if is_left_behind(state, cell, read) else runs_under(state, cell)


def is_left_behind(state: State, cell: Cell, read: BlobReader) -> bool:
    """Whether a finished instance stays with its own manifest until a step of it ends. Raises as
    ``next_under``."""
    if state.eras.is_one or cell.fault is not None or stays(state, cell):
        return False
    return home(state, cell) != state.manifest_seq and misfits_under(
        state, cell, state.effective, read
    )


def misfits_under(state: State, cell: Cell, new: Effective, read: BlobReader) -> bool:
    """Whether a finished instance can stay with its own manifest and does not fit ``new``. Raises
    as ``next_under``."""
    name, own_manifest = cell.id[0], manifest_under(state, home(state, cell))
    workflow = new.workflows.get(name)
    if (
        workflow is None
        or name not in own_manifest.workflows
        or not may_differ(own_manifest, new, name)
    ):
        return False
    return (
        key_problem(workflow, cell.id[1]) is not None
        or state_problem(workflow, cell.state, read) is not None
    )


@lru_cache(maxsize=_COMPARED)
def may_differ(old: Effective, new: Effective, workflow: str) -> bool:
    """Whether a key or state of a workflow of the old manifest may not fit the new one. Both must
    have the workflow."""
    old_workflow, new_workflow, shapes = (
        old.workflows[workflow],
        new.workflows[workflow],
        Shapes(old, new),
    )
    return (
        not shapes.same(old_workflow.key, new_workflow.key)
        or not shapes.same(old_workflow.state, new_workflow.state)
        # The content of an opaque state was never checked.
        or old_workflow.has_opaque_state != new_workflow.has_opaque_state
    )
