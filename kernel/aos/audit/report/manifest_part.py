"""Each manifest that came into force, its operator, and the authority that it changed (EX-66)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from aos.audit.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.audit.views.record_view import document
from aos.core.journal.records import Manifest, Record
from aos.manifest.difference import Difference, difference

CHANGES_MAX: Final = 200
"""How many changes of one manifest are listed."""


class ManifestPart:
    """The manifests, with what changed from the one before."""

    NAME: ClassVar = "manifests"

    def __init__(self) -> None:
        self._manifests = NewestEntries()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if not isinstance(record, Manifest):
            return
        assert at.effective is not None, "the collector reads the manifest first"
        changed = difference(at.previous_effective, at.effective)
        self._manifests.add(
            {
                **document(record, at.lens),
                "proposal": record.proposal,
                "authority": _change_texts(changed.authority),
                "changes": _change_texts(_other_changes(changed)),
            }
        )

    def document(self) -> ReportDocument:
        return self._manifests.document()


def _other_changes(changed: Difference) -> list[object]:
    changes = [
        *changed.definitions, *changed.routes, *changed.limits, *changed.plans, *changed.schedules,
    ]  # fmt: skip
    return [*changes, *(["~ order of the subscriptions"] if changed.reordered else [])]


def _change_texts(changes: Iterable[object]) -> list[str]:
    texts = [str(change) for change in changes]
    omitted = len(texts) - CHANGES_MAX
    return texts[:CHANGES_MAX] + ([f"and {omitted} more"] if omitted > 0 else [])
