"""Proposals of a governed world, with their reports and votes (EX-72)."""

from __future__ import annotations

from typing import ClassVar, Final

from aos.audit.report.report_part import LISTED_MAX, CurrentRecord, ReportDocument
from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Governance, Manifest, Record
from aos.manifest.keys import key_text
from aos.values.digests import hash_text

ACTS_MAX: Final = 200
"""How many votes and reports of one proposal are listed."""


class GovernancePart:
    """The newest proposals, each with what became of it, and who approves now."""

    NAME: ClassVar = "governance"

    def __init__(self) -> None:
        self._total = 0
        self._proposals: dict[int, ReportDocument] = {}
        self._approvers: ReportDocument | None = None

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Governance):
            self._act(record)
        elif isinstance(record, Manifest):
            proposal = self._proposals.get(record.proposal or 0)
            if proposal is not None:
                proposal["applied_by"] = record.seq
            self._approvers = _approvers(at)

    def _act(self, record: Governance) -> None:
        if record.action == "propose":
            self._total += 1
            self._proposals[record.seq] = _proposed(record)
            if len(self._proposals) > LISTED_MAX:
                del self._proposals[next(iter(self._proposals))]
            return
        proposal = self._proposals.get(record.proposal or 0)
        if proposal is None:
            return
        if len(proposal["acts"]) < ACTS_MAX:
            proposal["acts"].append(
                {
                    "record": record.seq,
                    "at_ns": record.stamp.ns,
                    "action": record.action,
                    "principal": record.principal,
                    "report": None if record.report is None else hash_text(record.report.hash),
                    "seen": None if record.seen is None else hash_text(record.seen),
                    "note": record.note,
                }
            )
        else:
            proposal["acts_left_out"] += 1

    def document(self) -> ReportDocument:
        return {
            "in_force": self._approvers,
            "total": self._total,
            "left_out": self._total - len(self._proposals),
            "list": list(self._proposals.values()),
        }


def _proposed(record: Governance) -> ReportDocument:
    return {
        "record": record.seq,
        "at_ns": record.stamp.ns,
        "principal": record.principal,
        "document": None if record.document is None else hash_text(record.document.hash),
        "base": None if record.base is None else hash_text(record.base),
        "mode": record.mode or STRICT,
        "leaves": list(record.leaves),
        "note": record.note,
        "acts": [],
        "acts_left_out": 0,
        "applied_by": None,
    }


def _approvers(at: CurrentRecord) -> ReportDocument | None:
    governance = None if at.effective is None else at.effective.governance
    if governance is None:
        return None
    return {
        "approvers": [
            {"name": approver.name, "public_key": key_text(approver.public_key)}
            for approver in governance.approvers
        ],
        "quorum": governance.quorum,
        "shadow_records": governance.shadow_records,
    }
