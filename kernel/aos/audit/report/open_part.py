"""The open work at the end of a journal: cells, effects, mail, proposals (EX-73).

The state is folded from the newest snapshot that is kept, so that memory does not grow with the
journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from aos.audit.report.collecting import CollectedRecords
from aos.audit.report.report_part import ReportDocument
from aos.audit.report.report_source import ReportSource
from aos.audit.views.world_view import cell_counts, intent_counts, mail_counts
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.errors import Damage
from aos.values.digests import hash_text

FAILED_MAX: Final = 200
"""How many failed cells are listed."""


def open_work(
    source: ReportSource,
    collected: CollectedRecords,
    on_progress: Callable[[int], None] | None = None,
) -> ReportDocument:
    """Return the open work at the journal's end; ``{problem}`` if it cannot be folded."""
    try:
        state = _state(source, collected, on_progress)
        return {"problem": None, **_document(state)}
    except Damage as problem:
        return {"problem": str(problem)}


def _state(
    source: ReportSource, collected: CollectedRecords, on_progress: Callable[[int], None] | None
) -> State:
    if collected.world is None or collected.problem is not None:
        raise Damage(collected.problem or "the journal has no frame")
    state = None if collected.snapshot is None else source.state_at(collected.snapshot[1])
    if state is None:
        state = source.state_before(collected.world)
    for frame in source.frames():
        if frame.header.first > state.tip.seq:
            fold_frame(state, frame, source.blob)
            if on_progress is not None:
                on_progress(frame.header.last)
    return state


def _document(state: State) -> ReportDocument:
    return {
        "cells": cell_counts(state),
        "intents": intent_counts(state),
        "mail": mail_counts(state),
        "owed": len(state.owed),
        "failed": _failed(state),
        "proposals": _proposals(state),
    }


def _failed(state: State) -> ReportDocument:
    """The cells that a fault failed, by workflow and kind."""
    counts: Counter[tuple[str, str]] = Counter(
        (cell.id[0], cell.fault.kind.value)
        for cell in state.cells.active.values()
        if cell.fault is not None
    )
    groups = [
        {"workflow": workflow, "kind": kind, "count": count}
        for (workflow, kind), count in sorted(counts.items())
    ]
    return {"total": counts.total(), "by": groups[:FAILED_MAX]}


def _proposals(state: State) -> list[ReportDocument]:
    governance = None if state.manifest is None else state.manifest.governance
    if governance is None:
        return []
    return [
        {
            "record": seq,
            "document": hash_text(proposal.document.hash),
            "status": proposal.status(governance),
            "approved_by": proposal.voters("approve"),
            "rejected_by": proposal.voters("reject"),
        }
        for seq, proposal in state.proposals.open.items()
    ]
