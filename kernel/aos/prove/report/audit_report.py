"""Make a report: read a journal once for all of its parts, and put them together (spec/exports.md,
EX-60 to EX-64, EX-73).

The document depends on the journal alone: it has no time of day, no path, and no duration of the
checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.journal_clock import clock_after
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Record, Snapshot
from aos.core.state.state import State
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.prove.replay.replay_report import Divergence, ReplayReport
from aos.prove.replay.second_opinion import ReplayCores
from aos.prove.report.authority_parts import (
    CommandPart,
    ErasedPart,
    ExecutorPart,
    GovernancePart,
    IdentityPart,
    ManifestPart,
)
from aos.prove.report.report_part import (
    CurrentRecord,
    NewestEntries,
    ReportDocument,
    ReportPart,
)
from aos.prove.report.work_parts import AttemptPart, EffectPart, FaultPart
from aos.prove.verify.findings import VerifyReport
from aos.prove.verify.journal_source import JournalSource
from aos.read.lens.lens import Lens, Manifests
from aos.read.views.world_view import cell_counts, intent_counts, mail_counts
from aos.values.digests import Hash, hash_text

FORMAT: Final = "aos-audit/1"

FINDINGS_MAX: Final = 100

FAILED_MAX: Final = 200
"""How many failed cells are listed."""

_MACHINE: Final = ("seconds", "rows", "findings", "unlisted", "blobs", "blob_bytes")
"""Fields of verify's and replay's documents that depend on more than the journal."""

PARTS: Final[tuple[Callable[[], ReportPart], ...]] = (
    IdentityPart, ManifestPart, GovernancePart, ExecutorPart, CommandPart, FaultPart, EffectPart,
    AttemptPart, ErasedPart,
)  # fmt: skip
"""The parts of a report that are read from its records. A new one is listed here."""


@dataclass(slots=True)
class CollectedRecords:
    """The result of one pass. ``snapshot`` is the newest that is kept: (its place, its document).

    ``problem`` is why the pass ended early: the records after ``last`` are not described.
    """

    parts: dict[str, object] = field(default_factory=dict)
    first: int | None = None
    last: int = 0
    first_ns: int | None = None
    clock_ns: int = 0
    frames: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    snapshots: ReportDocument = field(default_factory=dict)
    snapshot: tuple[int, Hash] | None = None
    world: Hash | None = None
    problem: str | None = None


def audit_report(
    source: JournalSource | None,
    verified: VerifyReport,
    replayed: ReplayReport | Damage | None = None,
    cores: ReplayCores | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> ReportDocument:
    """Return the document of a report (EX-64).

    Args:
        source: The journal; None if it cannot be opened, as ``verified`` tells.
        replayed: The result of a replay, if there was one: its report, its first difference, or
            why it could not read the journal.
        cores: The kernel that decided the journal again, if there was a replay.
        on_progress: Called after each frame with the sequence reached, in up to two passes.
    """
    collected = CollectedRecords() if source is None else collect(source, on_progress)
    return {
        "report": FORMAT,
        "world": None if source is None else hash_text(source.head.world),
        "seq": collected.last,
        "problem": collected.problem if source is not None else "the journal cannot be opened",
        "verify": _verified(verified),
        "replay": None if replayed is None else _replayed(replayed, cores),
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


def _replayed(result: ReplayReport | Damage, cores: ReplayCores | None) -> ReportDocument:
    document = {} if cores is None else cores.to_document()
    if isinstance(result, Divergence):
        return {
            **document,
            **result.to_document(),
            "differences": [difference.field for difference in result.differences],
        }
    if isinstance(result, Damage):
        return {**document, "identical": False, "message": str(result)}
    return {**document, **{k: v for k, v in result.to_document().items() if k not in _MACHINE}}


def _horizon(source: JournalSource | None, collected: CollectedRecords) -> ReportDocument:
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


def _anchors(source: JournalSource | None, collected: CollectedRecords) -> ReportDocument:
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


def collect(source: JournalSource, on_progress: Callable[[int], None] | None) -> CollectedRecords:
    """Read every record up to the head, or up to the first that cannot be read, once for all parts
    of a report (EX-62)."""
    collected = CollectedRecords()
    parts = [part() for part in PARTS]
    snapshots = NewestEntries()
    try:
        at = _at_beginning(source)
        collected.clock_ns = at.clock_ns
        for frame in source.all_frames():
            _check_place(source, collected, frame.header.first)
            if collected.first is None:
                collected.first, collected.world = frame.header.first, frame.header.world
            for data in frame.records:
                record = from_bytes(data)
                _advance(record, at, source)
                for part in parts:
                    part.take(record, at)
                collected.kinds[record.KIND] += 1
                if collected.first_ns is None and at.clock_ns:
                    collected.first_ns = at.clock_ns
                if isinstance(record, Snapshot):
                    snapshots.add(_snapshot_entry(record))
                    if source.has_blob(record.document.hash):
                        collected.snapshot = record.at, record.document.hash
                collected.last, collected.clock_ns = record.seq, at.clock_ns
            collected.frames += 1
            if on_progress is not None:
                on_progress(collected.last)
        if collected.last != source.head.seq:
            raise Damage(f"the journal ends before record {source.head.seq}, its head")
    except Damage as problem:
        collected.problem = str(problem)
    collected.parts = {part.NAME: part.document() for part in parts}
    collected.snapshots = snapshots.document()
    return collected


def _at_beginning(source: JournalSource) -> CurrentRecord:
    at = CurrentRecord(Lens(Manifests(), source.blob), source.blob)
    if source.begins is not None:
        state = source.begins.state(source.blob)
        at.clock_ns = state.clock_ns
        if state.manifest is not None:
            _put_in_force(at, state.manifest, state.manifest_seq)
    return at


def _check_place(source: JournalSource, collected: CollectedRecords, first: int) -> None:
    expected = collected.last + 1
    if not collected.last and source.begins is not None:
        expected = source.begins.tip.seq + 1
    if first != expected:
        raise Damage(f"frame {expected} is missing: the next one begins at record {first}")


def _advance(record: Record, at: CurrentRecord, source: JournalSource) -> None:
    """Move the clock and the manifest in force to a record."""
    at.clock_ns = clock_after(at.clock_ns, record)
    if isinstance(record, Manifest):
        effective = judge(source.blob(record.document.hash))
        at.previous_effective = at.effective
        _put_in_force(at, effective, record.seq)


def _put_in_force(at: CurrentRecord, effective: Effective, seq: int) -> None:
    # A new lens each time, so that only two manifests are in memory.
    manifests = Manifests()
    manifests.add(seq, effective)
    at.effective = effective
    at.lens = Lens(manifests, at.read)


def _snapshot_entry(record: Snapshot) -> ReportDocument:
    return {
        "record": record.seq,
        "at": record.at,
        "at_ns": record.stamp.ns,
        "frame": hash_text(record.frame),
        "document": hash_text(record.document.hash),
    }


def open_work(
    source: JournalSource,
    collected: CollectedRecords,
    on_progress: Callable[[int], None] | None = None,
) -> ReportDocument:
    """Return the open work at the journal's end: cells, effects, mail, proposals (EX-73);
    ``{problem}`` if it cannot be folded.

    The state is folded from the newest snapshot that is kept, so that memory does not grow with the
    journal.
    """
    try:
        state = _state_at_end(source, collected, on_progress)
        return {"problem": None, **_open_document(state)}
    except Damage as problem:
        return {"problem": str(problem)}


def _state_at_end(
    source: JournalSource, collected: CollectedRecords, on_progress: Callable[[int], None] | None
) -> State:
    if collected.world is None or collected.problem is not None:
        raise Damage(collected.problem or "the journal has no frame")
    snapshot = None if collected.snapshot is None else collected.snapshot[1]
    return source.last_state(snapshot, on_progress)


def _open_document(state: State) -> ReportDocument:
    return {
        "cells": cell_counts(state),
        "intents": intent_counts(state),
        "mail": mail_counts(state),
        "owed": len(state.owed),
        "failed": _failed_cells(state),
        "proposals": _open_proposals(state),
    }


def _failed_cells(state: State) -> ReportDocument:
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


def _open_proposals(state: State) -> list[ReportDocument]:
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
