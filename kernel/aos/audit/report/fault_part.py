"""Faults: how many of each kind failed an instance of which workflow, and the newest (EX-69)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from aos.audit.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.audit.views.record_view import cell_document
from aos.core.journal.faults import FaultKind
from aos.core.journal.records import (
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
)


class FaultPart:
    """Faults of steps, and those that a receipt or a full mailbox caused."""

    NAME: ClassVar = "faults"

    def __init__(self) -> None:
        self._faults = NewestEntries()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Faulted):
            fault = record.fault
            self._add(record, record.cell, fault.kind, fault.message, at)
            return
        for cell in _overloaded(record):
            self._add(record, cell, FaultKind.OVERLOADED, "its mailbox was full", at)
        if isinstance(record, Receipt | KernelReceipt) and record.outcome == "faulted":
            message = record.problem or ""
            self._add(record, record.cell, FaultKind.RECEIPT_INVALID, message, at)

    def _add(
        self, record: Record, cell: CellId, kind: FaultKind, message: str, at: CurrentRecord
    ) -> None:
        self._counts[cell[0], kind.value] += 1
        under = getattr(record, "under", None)
        self._faults.add(
            {
                "record": record.seq,
                "at_ns": at.clock_ns,
                "cell": cell_document(
                    cell, at.lens, seq=record.seq if under is None else under + 1
                ),
                "kind": kind.value,
                "message": message,
            }
        )

    def document(self) -> ReportDocument:
        counts = [
            {"workflow": workflow, "kind": kind, "count": count}
            for (workflow, kind), count in sorted(self._counts.items())
        ]
        return {"counts": counts, **self._faults.document()}


def _overloaded(record: Record) -> Iterator[CellId]:
    if isinstance(record, Event):
        yield from record.overloaded
    elif isinstance(record, Step):
        for event in record.events:
            yield from event.overloaded
    elif isinstance(record, Receipt | KernelReceipt) and record.outcome == "overloaded":
        yield record.cell
