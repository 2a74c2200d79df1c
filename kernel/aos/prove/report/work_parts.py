"""The parts of a report about what the world did: effects, attempts, faults (spec/exports.md,
EX-69, EX-70)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from aos.core.journal.faults import FaultKind
from aos.core.journal.records import (
    Attempt,
    CellId,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.core.journal.vocabulary import PHASES, STATUSES
from aos.prove.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.read.views.record_view import cell_document
from aos.values.digests import hash_text

KERNEL: Final = "the kernel itself"


@dataclass(slots=True)
class _Answers:
    """The receipts of one executor for one effect. ``priced`` counts those that name a cost."""

    statuses: Counter[str] = field(default_factory=Counter)
    undelivered: int = 0
    retried: int = 0
    frames: int = 0
    priced: int = 0
    cost_cents: int = 0
    took_ns: int = 0


class EffectPart:
    """Effects by executor and status, with their cost: counts of requests and receipts (EX-70)."""

    NAME: ClassVar = "effects"

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._answers: dict[tuple[str, str], _Answers] = {}

    def take(self, record: Record, at: CurrentRecord) -> None:  # noqa: ARG002  # as every part
        if isinstance(record, Step):
            for intent in record.intents:
                self._requests[intent.effect] += 1
        elif isinstance(record, Receipt):
            answers = self._of(record.effect, record.executor)
            answers.retried += record.attempt > 1
            answers.took_ns += record.finished_ns - record.started_ns
            if record.cost_cents is not None:
                answers.priced += 1
                answers.cost_cents += record.cost_cents
            _count_receipt(answers, record)
        elif isinstance(record, KernelReceipt):
            _count_receipt(self._of(record.effect, KERNEL), record)
        elif isinstance(record, Stream):
            self._of(record.effect, record.executor).frames += 1

    def _of(self, effect: str, executor: str) -> _Answers:
        return self._answers.setdefault((effect, executor), _Answers())

    def document(self) -> ReportDocument:
        return {
            "asked": dict(sorted(self._requests.items())),
            "answers": [
                {
                    "effect": effect,
                    "executor": executor,
                    **{status: answers.statuses[status] for status in STATUSES},
                    "undelivered": answers.undelivered,
                    "retried": answers.retried,
                    "frames": answers.frames,
                    "priced": answers.priced,
                    "cost_cents": answers.cost_cents,
                    "took_ns": answers.took_ns,
                }
                for (effect, executor), answers in sorted(self._answers.items())
            ],
        }


def _count_receipt(answers: _Answers, record: Receipt | KernelReceipt) -> None:
    answers.statuses[record.status] += 1
    answers.undelivered += record.outcome != "delivered"


class AttemptPart:
    """Attempts by phase, and those whose end is unknown (EX-70)."""

    NAME: ClassVar = "attempts"

    def __init__(self) -> None:
        self._phases: Counter[str] = Counter()
        self._lost = NewestEntries()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if not isinstance(record, Attempt):
            return
        self._phases[record.phase] += 1
        if record.phase == "lost":
            self._lost.add(
                {
                    "record": record.seq,
                    "at_ns": record.stamp.ns,
                    "intent": hash_text(record.intent),
                    "cell": cell_document(record.cell, at.lens, seq=record.seq),
                    "attempt": record.attempt,
                    "problem": record.problem,
                }
            )

    def document(self) -> ReportDocument:
        phases: ReportDocument = {phase: self._phases[phase] for phase in PHASES}
        return {**phases, "lost_ones": self._lost.document()}


class FaultPart:
    """Faults of steps, and those that a receipt or a full mailbox caused: how many of each kind
    failed an instance of which workflow, and the newest (EX-69)."""

    NAME: ClassVar = "faults"

    def __init__(self) -> None:
        self._faults = NewestEntries()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Faulted):
            fault = record.fault
            self._add(record, record.cell, fault.kind, fault.message, at)
            return
        for cell in _overloaded_cells(record):
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


def _overloaded_cells(record: Record) -> Iterator[CellId]:
    if isinstance(record, Event):
        yield from record.overloaded
    elif isinstance(record, Step):
        for event in record.events:
            yield from event.overloaded
    elif isinstance(record, Receipt | KernelReceipt) and record.outcome == "overloaded":
        yield record.cell
