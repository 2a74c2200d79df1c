"""Put a report together (spec/exports.md, EX-60 to EX-64).

The document depends on the journal alone: it has no time of day, no path, and no duration of the
checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aos.audit.replay.replay_report import Divergence, ReplayReport
from aos.audit.report.collecting import CollectedRecords, collect
from aos.audit.report.open_part import open_work
from aos.audit.report.report_part import ReportDocument
from aos.audit.report.report_source import ReportSource
from aos.audit.verify.findings import VerifyReport
from aos.errors import Damage
from aos.values.digests import hash_text

FORMAT: Final = "aos-audit/1"

FINDINGS_MAX: Final = 100

_MACHINE: Final = ("seconds", "rows", "findings", "unlisted", "blobs", "blob_bytes")
"""Fields of verify's and replay's documents that depend on more than the journal."""


def audit_report(
    source: ReportSource | None,
    verified: VerifyReport,
    replayed: ReplayReport | Damage | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> ReportDocument:
    """Return the document of a report (EX-64).

    Args:
        source: The journal; None if it cannot be opened, as ``verified`` tells.
        replayed: The result of a replay, if there was one: its report, its first difference, or
            why it could not read the journal.
        on_progress: Called after each frame with the sequence reached, in up to two passes.
    """
    collected = CollectedRecords() if source is None else collect(source, on_progress)
    return {
        "report": FORMAT,
        "world": None if source is None else hash_text(source.head.world),
        "seq": collected.last,
        "problem": collected.problem if source is not None else "the journal cannot be opened",
        "verify": _verified(verified),
        "replay": None if replayed is None else _replayed(replayed),
        "horizon": _horizon(source, collected),
        "anchors": _anchors(source, collected),
        **collected.parts,
        "open": {"problem": "it cannot be opened"}
        if source is None
        else open_work(source, collected),
    }


def _verified(report: VerifyReport) -> ReportDocument:
    document = {k: v for k, v in report.to_document().items() if k not in _MACHINE}
    findings = [finding.to_document() for finding in report.findings[:FINDINGS_MAX]]
    total = len(report.findings) + report.unlisted
    return {**document, "findings": findings, "left_out": total - len(findings)}


def _replayed(result: ReplayReport | Damage) -> ReportDocument:
    if isinstance(result, Divergence):
        return {
            **result.to_document(),
            "differences": [difference.field for difference in result.differences],
        }
    if isinstance(result, Damage):
        return {"identical": False, "message": str(result)}
    return {k: v for k, v in result.to_document().items() if k not in _MACHINE}


def _horizon(source: ReportSource | None, collected: CollectedRecords) -> ReportDocument:
    """The range of the report: the first and last record, and the pruned ones before."""
    begins = None if source is None else source.begins
    return {
        "first": collected.first,
        "last": collected.last,
        "frames": collected.frames,
        "first_ns": collected.first_ns,
        "clock_ns": collected.clock_ns,
        "kinds": dict(sorted(collected.kinds.items())),
        "pruned": None
        if begins is None
        else {"to": begins.tip.seq, "snapshot": hash_text(begins.document)},
    }


def _anchors(source: ReportSource | None, collected: CollectedRecords) -> ReportDocument:
    """The values that fix the journal's content: its signed head, and its snapshots.

    Checkpoints of the header log belong here, too."""
    head = None if source is None else source.head
    return {
        "head": None
        if head is None
        else {
            "seq": head.seq,
            "frames": head.frames,
            "frame": hash_text(head.frame),
            "log_root": hash_text(head.log_root),
            "signature": head.signature.hex(),
        },
        "snapshots": collected.snapshots,
    }
