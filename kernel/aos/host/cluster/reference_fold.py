"""Fold the journal of a node with the reference, and compare its state with the snapshots that the
journal records (spec/cluster.md, CL-285 to CL-289)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aos.core.snapshot.load import in_format_of
from aos.core.snapshot.take import take
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.host.door.following import ReferenceFigures
from aos.store.lmdb_store import LmdbStore
from aos.store.rows import SnapshotRow
from aos.store.store import head_of
from aos.store.stored_world import empty_state, state_of
from aos.values.digests import content_hash, hash_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceProgress:
    """How far the reference has come: to record ``at``, ``behind`` records before the end of the
    journal. It has compared so many snapshots, and ``skipped`` so many records, because it could
    not keep up. ``difference`` is the first difference; None without one."""

    at: int = 0
    behind: int = 0
    compared: int = 0
    skipped: int = 0
    difference: str | None = None

    @property
    def figures(self) -> ReferenceFigures:
        """The same for the followers of the process."""
        return ReferenceFigures(behind=self.behind, differs=self.difference is not None)

    def to_document(self) -> dict[str, Any]:
        """The document of the status of a node."""
        return {
            "at": self.at,
            "behind": self.behind,
            "compared": self.compared,
            "skipped": self.skipped,
            "difference": self.difference,
        }


class ReferenceFold:
    """Folds from one snapshot of ``store`` to the next one. Memory has the changes between two of
    them: after a comparison, the state is read from the snapshot again."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self._folded: State | None = None
        self._begun_at: int | None = None
        """The snapshot from which the state was read; None: it began before the genesis."""
        self._compared = 0
        self._skipped = 0
        self._difference: str | None = None

    def progress(self) -> ReferenceProgress:
        """How far it has come."""
        at = 0 if self._folded is None else self._folded.tip.seq
        return ReferenceProgress(
            at=at,
            behind=head_of(self._store).seq - at,
            compared=self._compared,
            skipped=self._skipped,
            difference=self._difference,
        )

    def advance(self) -> bool:
        """Compare with the next snapshot, if there is one; whether something has changed. If there
        are several, skip forward to the last but one. After a difference, nothing more is
        compared."""
        if self._difference is not None:
            return False
        rows = list(self._store.snapshots())
        if self._folded is None:
            self._load(rows[-1] if rows else None)
            return True
        at = self._folded.tip.seq
        newer = [row for row in rows if row.at > at]
        if not newer:
            return False
        if len(newer) > 1:
            self._skipped += newer[-2].at - at
            self._load(newer[-2])
        try:
            self._compare(self._folded, newer[-1])
        except Exception as problem:  # noqa: BLE001  # of any kind: the other kernel had none
            if not self._has_beginning():  # it was removed meanwhile, with its parts
                self._skipped += newer[-1].at - at
                self._load(newer[-1])
                return True
            self._difference = (
                f"the reference cannot fold to record {newer[-1].at}, as the other kernel did: "
                f"{type(problem).__name__}: {problem}"
            )
        return True

    def _compare(self, state: State, row: SnapshotRow) -> None:
        for frame in self._store.frames(state.tip.seq + 1, row.at):
            fold_frame(state, frame, self._store.blob)
        document = in_format_of(
            row.document,
            self._store.blob,
            lambda number: take(state, content_hash, format=number).document,
        )
        if document != row.document:
            self._difference = (
                f"the state after record {row.at} differs: the snapshot of record {row.seq} is "
                f"{hash_text(row.document)}, and that of the reference {hash_text(document)}"
            )
            return
        self._compared += 1
        self._load(row)

    def _load(self, row: SnapshotRow | None) -> None:
        self._folded = empty_state(self._store) if row is None else state_of(self._store, row)
        self._begun_at = None if row is None else row.at

    def _has_beginning(self) -> bool:
        """Whether the store still has everything that this fold began with."""
        if self._begun_at is None:
            return self._store.cut() is None
        return any(row.at == self._begun_at for row in self._store.snapshots())
