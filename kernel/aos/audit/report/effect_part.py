"""Effects by executor and status, with their cost, and the attempts that were lost (EX-70)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Final

from aos.audit.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.audit.views.record_view import cell_document
from aos.core.journal.records import Attempt, KernelReceipt, Receipt, Record, Step, Stream
from aos.core.journal.vocabulary import PHASES, STATUSES
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
    """Counts of requests and receipts."""

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
            _count(answers, record)
        elif isinstance(record, KernelReceipt):
            _count(self._of(record.effect, KERNEL), record)
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


def _count(answers: _Answers, record: Receipt | KernelReceipt) -> None:
    answers.statuses[record.status] += 1
    answers.undelivered += record.outcome != "delivered"


class AttemptPart:
    """Attempts by phase, and those whose end is unknown."""

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
