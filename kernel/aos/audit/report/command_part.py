"""Operators' commands, and the values that they erased (EX-68, EX-71)."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from aos.audit.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.audit.views.record_view import control_text, document
from aos.core.journal.inputs import ERASE
from aos.core.journal.records import Control, Fork, Record
from aos.values.digests import hash_text


class CommandPart:
    """All commands, counted by operator and action."""

    NAME: ClassVar = "commands"

    def __init__(self) -> None:
        self._commands = NewestEntries()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Control):
            self._counts[record.principal, record.action] += 1
            fields = document(record, at.lens)
            self._commands.add({**fields, "summary": control_text(fields)})

    def document(self) -> ReportDocument:
        counts = [
            {"principal": principal, "action": action, "count": count}
            for (principal, action), count in sorted(self._counts.items())
        ]
        return {"counts": counts, **self._commands.document()}


class ErasedPart:
    """The values that a command erased, or that a fork did not take over."""

    NAME: ClassVar = "erased"

    def __init__(self) -> None:
        self._values = NewestEntries()

    def take(self, record: Record, at: CurrentRecord) -> None:  # noqa: ARG002  # as every part
        if isinstance(record, Control) and record.action == ERASE and record.value is not None:
            self._add(hash_text(record.value), record, record.principal)
        elif isinstance(record, Fork):
            for value in record.erased:
                self._add(hash_text(value), record, None)

    def _add(self, value: str, record: Control | Fork, principal: str | None) -> None:
        self._values.add(
            {
                "value": value,
                "record": record.seq,
                "at_ns": record.stamp.ns,
                "principal": principal,
            }
        )

    def document(self) -> ReportDocument:
        return self._values.document()
