"""Shared by the parts of a report: the current manifest, the journal clock, and bounded lists
(spec/exports.md, EX-62, EX-63).

A new section is a new ``ReportPart``, listed in ``audit_report.PARTS``, and a new chapter.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Record
from aos.manifest.effective import Effective
from aos.read.lens.lens import Lens

ReportDocument: TypeAlias = dict[str, Any]

LISTED_MAX: Final = 500
"""How many entries a list of the report has; the others are counted."""


@dataclass(slots=True)
class CurrentRecord:
    """The manifest and the clock at the current record. ``effective`` is the manifest,
    ``previous_effective`` the one that a manifest record replaces, ``read`` reads blobs."""

    lens: Lens
    read: BlobReader
    clock_ns: int = 0
    effective: Effective | None = None
    previous_effective: Effective | None = None


class ReportPart(Protocol):
    """Takes every record once, and returns its part of the report's document."""

    NAME: ClassVar[str]

    def take(self, record: Record, at: CurrentRecord) -> None: ...

    def document(self) -> object: ...


@dataclass(slots=True)
class NewestEntries:
    """The newest ``LISTED_MAX`` entries of a list, and the number of all."""

    total: int = 0
    _newest: deque[ReportDocument] = field(default_factory=lambda: deque(maxlen=LISTED_MAX))

    def add(self, entry: ReportDocument) -> None:
        self.total += 1
        self._newest.append(entry)

    def document(self) -> ReportDocument:
        """Return ``{total, left_out, list}``, the list in the order of the journal."""
        return {
            "total": self.total,
            "left_out": self.total - len(self._newest),
            "list": list(self._newest),
        }
