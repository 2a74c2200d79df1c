"""Which records are inputs of a cell in its timeline (spec/audit.md, A-45)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Event,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)


def reaching(record: Record, cell: CellId) -> Iterator[int]:
    """Yield the indexes under which ``record`` came in for ``cell``, or did not reach it: its
    mailbox was full, or it did not exist."""
    match record:
        case Event() if cell in record.to or cell in record.overloaded:
            yield 0
        case Receipt() | KernelReceipt() | Stream() | Attempt() | Control() if record.cell == cell:
            yield 0
        case Step():
            for index, event in enumerate(record.events):
                if cell in (*event.to, *event.overloaded, *event.unknown):
                    yield index
        case _:
            pass


def inputs_by_cell(record: Record) -> Mapping[CellId, int]:
    """Return how many inputs ``reaching`` yields, for each cell that has one."""
    match record:
        case Event():
            return dict.fromkeys((*record.to, *record.overloaded), 1)
        case Receipt() | KernelReceipt() | Stream() | Attempt():
            return {record.cell: 1}
        case Control(cell=tuple(cell)):
            return {cell: 1}
        case Step() if record.events:
            counts: Counter[CellId] = Counter()
            for event in record.events:
                counts.update({*event.to, *event.overloaded, *event.unknown})
            return counts
        case _:
            return {}
