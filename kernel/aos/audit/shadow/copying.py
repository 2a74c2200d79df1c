"""Take recorded results over where an erased value keeps the shadow from deciding (spec/shadow.md,
SH-34).

A recorded result was decided under another manifest, so it is fitted to the shadow first: cells
that do not take an event there do not get it, and effects that are not there are not asked for.
"""

from __future__ import annotations

from dataclasses import replace

from aos.core.journal.records import CellId, Emitted, Event, Faulted, Step
from aos.core.state.continuation import takes
from aos.core.state.state import State
from aos.core.state.version import runs_under, stays, workflow_of


def copied_event(state: State, record: Event) -> Event:
    """Return an event that ``state`` can fold."""
    to, overloaded = (
        _taking(state, cells, record.schema) for cells in (record.to, record.overloaded)
    )
    kept_cells = _kept_in_shadow(state, record.kept, to + overloaded)
    return replace(record, to=to, overloaded=overloaded, kept=kept_cells)


def copied_step(state: State, record: Step | Faulted, seq: int) -> Step | Faulted:
    """Return a step or fault of the cell that is to run, for the first entry of its mailbox."""
    cell = state.cells[record.cell]
    mail, under = cell.mailbox[0], runs_under(state, cell)
    placed = replace(
        record,
        seq=seq,
        entry=mail.entry,
        root=mail.root.seq,
        depth=mail.depth,
        under=None if under == state.manifest_seq else under,
    )
    if isinstance(placed, Faulted) or isinstance(record, Faulted):
        return placed
    effects = state.effective.effects
    fits = record.under is None or placed.fits is not None
    return replace(
        placed,
        fits=state.manifest_seq if fits and placed.under is not None else None,
        events=tuple(_copied_emitted(state, event) for event in placed.events),
        intents=tuple(
            intent
            for intent in placed.intents
            if intent.effect in effects and intent.intent not in state.intents
        ),
        abandoned=tuple(cell.inflight) if placed.state is None else (),
    )


def _copied_emitted(state: State, event: Emitted) -> Emitted:
    to, overloaded = (_taking(state, cells, event.schema) for cells in (event.to, event.overloaded))
    kept_cells = _kept_in_shadow(state, event.kept, to + overloaded)
    return replace(event, to=to, overloaded=overloaded, unknown=(), kept=kept_cells)


def _taking(state: State, cells: tuple[CellId, ...], schema: str) -> tuple[CellId, ...]:
    return tuple(cell for cell in cells if _takes(state, cell, schema))


def _kept_in_shadow(
    state: State, kept_cells: tuple[CellId, ...], to: tuple[CellId, ...]
) -> tuple[CellId, ...]:
    """The receivers that stay under an earlier manifest in the shadow, too."""
    return tuple(id for id in kept_cells if id in to and _may_be_kept(state, id))


def _may_be_kept(state: State, id: CellId) -> bool:
    cell = state.cells.get(id)
    if cell is None or cell.fault is not None or state.eras.is_one:
        return False
    return cell.is_kept or not stays(state, cell)


def _takes(state: State, id: CellId, schema: str) -> bool:
    cell = state.cells.get(id)
    workflow = state.effective.workflows.get(id[0]) if cell is None else workflow_of(state, cell)
    return workflow is not None and takes(workflow, schema)
