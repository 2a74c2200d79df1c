"""Read a journal once for all parts of a report (spec/exports.md, EX-62)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aos.audit.lens.lens import Lens
from aos.audit.lens.manifests import Manifests
from aos.audit.report.command_part import CommandPart, ErasedPart
from aos.audit.report.effect_part import AttemptPart, EffectPart
from aos.audit.report.executor_part import ExecutorPart
from aos.audit.report.fault_part import FaultPart
from aos.audit.report.governance_part import GovernancePart
from aos.audit.report.identity_part import IdentityPart
from aos.audit.report.manifest_part import ManifestPart
from aos.audit.report.report_part import (
    CurrentRecord,
    NewestEntries,
    ReportDocument,
    ReportPart,
)
from aos.audit.report.report_source import ReportSource
from aos.core.journal.journal_clock import clock_after
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Record, Snapshot
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.values.digests import Hash, hash_text

PARTS: Final[tuple[Callable[[], ReportPart], ...]] = (
    IdentityPart,
    ManifestPart,
    GovernancePart,
    ExecutorPart,
    CommandPart,
    FaultPart,
    EffectPart,
    AttemptPart,
    ErasedPart,
)
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


def collect(source: ReportSource, on_progress: Callable[[int], None] | None) -> CollectedRecords:
    """Read every record up to the head, or up to the first that cannot be read."""
    collected = CollectedRecords()
    parts = [part() for part in PARTS]
    snapshots = NewestEntries()
    try:
        at = _beginning(source)
        collected.clock_ns = at.clock_ns
        for frame in source.frames():
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
                    snapshots.add(_snapshot(record))
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


def _beginning(source: ReportSource) -> CurrentRecord:
    at = CurrentRecord(Lens(Manifests(), source.blob), source.blob)
    if source.begins is not None:
        state = source.begins.state(source.blob)
        at.clock_ns = state.clock_ns
        if state.manifest is not None:
            _put_in_force(at, state.manifest, state.manifest_seq)
    return at


def _check_place(source: ReportSource, collected: CollectedRecords, first: int) -> None:
    expected = collected.last + 1
    if not collected.last and source.begins is not None:
        expected = source.begins.tip.seq + 1
    if first != expected:
        raise Damage(f"frame {expected} is missing: the next one begins at record {first}")


def _advance(record: Record, at: CurrentRecord, source: ReportSource) -> None:
    """Move the clock and the manifest in force to a record."""
    at.clock_ns = clock_after(at.clock_ns, record)
    if isinstance(record, Manifest):
        effective = Effective.from_document(source.blob(record.document.hash))
        at.previous_effective = at.effective
        _put_in_force(at, effective, record.seq)


def _put_in_force(at: CurrentRecord, effective: Effective, seq: int) -> None:
    # A new lens each time, so that only two manifests are in memory.
    manifests = Manifests()
    manifests.add(seq, effective)
    at.effective = effective
    at.lens = Lens(manifests, at.read)


def _snapshot(record: Snapshot) -> ReportDocument:
    return {
        "record": record.seq,
        "at": record.at,
        "at_ns": record.stamp.ns,
        "frame": hash_text(record.frame),
        "document": hash_text(record.document.hash),
    }
