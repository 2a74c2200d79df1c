"""The result of verify: counts, and a list of findings (spec/audit.md, A-20 to A-29)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from aos.values.digests import Hash, hash_text, parse_hash


class FindingKind(enum.Enum):
    """The kinds of findings. The spelling is part of the public contract."""

    STORE_UNREADABLE = "store_unreadable"
    FRAME_UNREADABLE = "frame_unreadable"
    FRAME_MISSING = "frame_missing"
    FRAME_ALTERED = "frame_altered"
    CHAIN_BROKEN = "chain_broken"
    RECORD_ALTERED = "record_altered"
    RECORD_UNREADABLE = "record_unreadable"
    RECORD_OUT_OF_ORDER = "record_out_of_order"
    RECORD_CANNOT_FOLLOW = "record_cannot_follow"
    SIGNATURE_WRONG = "signature_wrong"
    AUTHORITY_MISSING = "authority_missing"
    IDENTITY_WRONG = "identity_wrong"
    ATTEMPT_WRONG = "attempt_wrong"
    TIMER_EARLY = "timer_early"
    VALUE_INVALID = "value_invalid"
    MANIFEST_INVALID = "manifest_invalid"
    BLOB_DAMAGED = "blob_damaged"
    HEAD_WRONG = "head_wrong"
    SNAPSHOT_WRONG = "snapshot_wrong"
    DERIVED_DIFFERS = "derived_differs"
    BUNDLE_DAMAGED = "bundle_damaged"
    CHECKPOINT_WRONG = "checkpoint_wrong"
    JOURNAL_TRUNCATED = "journal_truncated"
    JOURNAL_REWRITTEN = "journal_rewritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem. ``frame`` is the first record of its frame; None: the problem is of no single
    frame."""

    kind: FindingKind
    frame: int | None
    record: int | None
    message: str

    def __str__(self) -> str:
        location = [f"frame {self.frame}"] if self.frame is not None else []
        location += [f"record {self.record}"] if self.record is not None else []
        return f"{', '.join(location)}: {self.message}" if location else self.message

    def to_document(self) -> dict[str, object]:
        return {**asdict(self), "kind": self.kind.value}


FINDINGS_MAX: Final = 1000
"""How many findings a report lists; the others are counted."""


@dataclass(slots=True)
class FindingList:
    """The findings of one pass over a journal.

    ``frame`` and ``record`` are the current ones, which the next finding names. ``unlisted`` counts
    the findings beyond ``FINDINGS_MAX``.
    """

    frame: int | None = None
    record: int | None = None
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0

    def add(self, kind: FindingKind, message: str) -> None:
        """Report a problem of the current frame and record (A-20)."""
        self._add(Finding(kind=kind, frame=self.frame, record=self.record, message=message))

    def later(self) -> Callable[[FindingKind, str], None]:
        """Return an ``add`` that keeps the current frame and record, for use when others are
        current."""
        frame, record = self.frame, self.record

        def add(kind: FindingKind, message: str) -> None:
            self._add(Finding(kind=kind, frame=frame, record=record, message=message))

        return add

    def has(self, kind: FindingKind) -> bool:
        """Return whether the last finding is of this kind and about the current record."""
        last = self.findings[-1] if self.findings else None
        return last is not None and (last.record, last.kind) == (self.record, kind)

    def _add(self, finding: Finding) -> None:
        if len(self.findings) >= FINDINGS_MAX:
            self.unlisted += 1
        else:
            self.findings.append(finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of a check without execution: counts and findings.

    ``blobs`` counts distinct blobs read; ``values`` values that fit their schemas; ``erased``
    values whose bytes are missing because a record erased them; ``rows`` derived rows compared;
    ``stamps_behind`` inputs whose clock was behind the journal's, which is allowed. ``seq``,
    ``frame`` and ``log_root`` are where the journal ends. ``unlisted`` counts findings beyond
    ``FINDINGS_MAX``. ``folded`` says whether the records were folded to the end, so that derived
    rows were compared. ``pruned`` is the last record that was pruned and not checked, 0 if the
    journal was verified from its genesis.
    """

    world: Hash | None
    frames: int
    records: int
    events: int
    receipts: int
    kernel_receipts: int
    streams: int
    attempts: int
    controls: int
    manifests: int
    steps: int
    faults: int
    intents: int
    signatures: int
    blobs: int
    blob_bytes: int
    modules: int
    values: int
    erased: int
    rows: int
    stamps_behind: int
    folded: bool
    pruned: int
    seq: int
    frame: Hash | None
    log_root: Hash | None
    seconds: float
    findings: tuple[Finding, ...]
    unlisted: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def to_document(self) -> dict[str, object]:
        """Return the document of spec/audit.md, A-28."""
        document: dict[str, object] = asdict(self)
        for name in _HASHES:
            value = getattr(self, name)
            document[name] = None if value is None else hash_text(value)
        document["findings"] = [finding.to_document() for finding in self.findings]
        return {"sound": self.is_sound, **document}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Inverse of ``to_document``."""
        values = {name: value for name, value in document.items() if name != "sound"}
        for name in _HASHES:
            values[name] = None if values[name] is None else parse_hash(values[name])
        values["findings"] = tuple(
            Finding(**{**finding, "kind": FindingKind(finding["kind"])})
            for finding in values["findings"]
        )
        return cls(**values)


_HASHES: Final = ("world", "frame", "log_root")
