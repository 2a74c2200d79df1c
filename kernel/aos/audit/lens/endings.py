"""Find the command with which an operator ended or removed an instance (spec/kernel.md, K-109)."""

from __future__ import annotations

from aos.audit.lens.ports import Journal, RecordIndex
from aos.audit.lens.scan import records_naming
from aos.audit.lens.words import one_line
from aos.core.journal.inputs import END, REMOVE
from aos.core.journal.records import CellId, Control


def ending(
    journal: Journal, cell: CellId, *, first: int, last: int, index: RecordIndex | None = None
) -> Control | None:
    """Return the first command among records ``first`` to ``last`` that ended or removed the
    cell: it took all mail and all open intents that the cell had then."""
    for record in records_naming(journal, cell, first=first, last=last, index=index):
        if isinstance(record, Control) and record.cell == cell and record.action in (END, REMOVE):
            return record
    return None


def ending_text(command: Control) -> str:
    """Return who ended the instance, by which record, and why."""
    action_text = "removed it" if command.action == REMOVE else f"ended it as {command.status}"
    text = f"{command.principal} {action_text}, by record {command.seq}"
    return text if command.why is None else f"{text}: {one_line(command.why)}"
