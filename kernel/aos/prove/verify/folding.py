"""Fold the records while a journal is verified, and compare the resulting derived rows and
snapshots with the stored ones (spec/audit.md, A-12a and A-27).

The fold stops at the first record that was altered, or that cannot follow the earlier ones. After
that nothing is compared, because every difference would follow from that record.
"""

from __future__ import annotations

from functools import partial

from aos.core.journal.frame import Frame, Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Record, Snapshot
from aos.core.snapshot.load import references
from aos.core.snapshot.take import take
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.errors import Damage, Erased, sentence
from aos.prove.verify.chain import Chain
from aos.prove.verify.findings import FindingKind, FindingList
from aos.prove.verify.pruned_journal import Beginning
from aos.prove.verify.roots import Roots
from aos.store.cut import Cut
from aos.store.derived import DerivedRows, differences, rows_at
from aos.store.store import Store
from aos.values.digests import Hash, content_hash, hash_text


def _taken(state: State, format: int) -> Hash:
    return take(state, content_hash, format=format).document


class Folding:
    """The state and the derived rows at the current record, until the fold stops."""

    def __init__(
        self, read: BlobReader, roots: Roots, cut: Cut | None, findings: FindingList
    ) -> None:
        self._read = read
        self._roots = roots
        self._cut = cut
        self._findings = findings
        # Both are None once the fold has stopped; the state also before the first frame.
        self._state: State | None = None
        self._rows: DerivedRows | None = DerivedRows()
        self._awaited = None if cut is None else cut.seq
        """The record of the cut, until a record names the snapshot after it."""

    @property
    def is_whole(self) -> bool:
        """Whether every record so far was folded."""
        return self._rows is not None

    @property
    def rows(self) -> int:
        """Return how many derived rows are compared."""
        return len(self._rows) if self._rows else 0

    def stop(self) -> None:
        """Fold no further record, and compare nothing."""
        self._state = self._rows = None

    def begin(self, world: Hash) -> None:
        """Begin at the genesis."""
        if self._rows is not None:
            self._state = self._roots.state(world)

    def begin_behind(self, begins: Beginning) -> State | None:
        """Begin with the state of a snapshot, and return it; None if it cannot be read (A-27b)."""
        state: State | None = None
        try:
            state = begins.state(self._roots.read)
            taken = partial(_taken, state)
            self._roots.documents[begins.tip.seq] = self._roots.taken_as(begins.document, taken)
            self._state = state if self._rows is not None else None
            self._rows = rows_at(state, begins.erased)
        except Damage as problem:
            self._findings.add(
                FindingKind.SNAPSHOT_WRONG,
                f"the snapshot that the journal continues from cannot be read: {problem}",
            )
            self.stop()
        return state

    def take(self, record: Record) -> None:
        """Fold the next record."""
        if isinstance(record, Snapshot):
            self._check_snapshot(record)
        state, rows = self._state, self._rows
        if state is None or rows is None:
            return
        try:
            fold(state, record, self._read)
            rows.take(record)
        except Exception as problem:  # noqa: BLE001  # an altered record may break any assumption
            problem_text = str(problem) if isinstance(problem, Damage) else repr(problem)
            # If a blob of this record is missing, that is already reported, and is the reason.
            if not self._findings.has(FindingKind.BLOB_DAMAGED):
                message = f"it cannot follow the records before it: {problem_text}"
                self._findings.add(FindingKind.RECORD_CANNOT_FOLLOW, message)
            self.stop()

    def end_frame(self, frame: Frame, chain: Chain) -> None:
        """Take a snapshot after a frame if the journal records one there. It is compared when
        its record comes (A-12a)."""
        state, last = self._state, frame.header.last
        if last not in self._roots.recorded or state is None or chain.log is None:
            return
        state.tip = Tip(world=state.world, seq=last, frame=frame.hash, log=chain.log)
        try:
            self._roots.passed_state(state)
        except Damage as problem:
            self._findings.add(
                FindingKind.SNAPSHOT_WRONG, f"its snapshot cannot be taken again: {problem}"
            )
            self.stop()

    def pass_cut(self, cut: Cut, chain: Chain) -> None:
        """Go from the archives to the frames of the store: report a chain that does not match
        ``cut``."""
        if (chain.prev, chain.log) != (cut.frame, cut.log):
            self._findings.add(
                FindingKind.CHAIN_BROKEN,
                f"the world continues after another record {cut.seq} than the one that the archive "
                "ends with",
            )
        if self._state is not None and self._rows is not None:
            self._rows = rows_at(self._state, self._rows.erased)

    def finish(self) -> None:
        """Report a cut whose snapshot no record names (A-27c)."""
        if self._awaited is not None and self._rows is not None:
            self._findings.add(
                FindingKind.SNAPSHOT_WRONG,
                f"the world continues from a snapshot after record {self._awaited}, but no record "
                "names that snapshot",
            )

    def compare_rows(self, store: Store) -> None:
        """Compare a store's derived rows with those computed from the records, if all were
        folded."""
        if self._rows is None:
            return
        if self._cut is not None and not self._cut.is_done:
            self._rows.leftover = self._cut.seq
        try:
            for message in differences(store, self._rows):
                self._findings.add(FindingKind.DERIVED_DIFFERS, message)
        except Damage as problem:
            self._findings.add(
                FindingKind.DERIVED_DIFFERS, f"the derived rows cannot be read: {problem}"
            )

    def _check_snapshot(self, record: Snapshot) -> None:
        if record.at == self._awaited:
            self._awaited = None
        computed = self._roots.documents.get(record.at)
        if computed is not None and computed != record.document.hash:
            self._findings.add(
                FindingKind.SNAPSHOT_WRONG,
                sentence(
                    f"the snapshot after record {record.at} is not of the world as it was then",
                    expected=hash_text(computed),
                    actual=hash_text(record.document.hash),
                ),
            )


def newest_snapshot_problem(store: Store) -> str | None:
    """Read every part of the newest snapshot, where a restart begins; return why that fails."""
    row = None
    try:
        row = store.snapshot_before()
        for hash, description in references(row.document, store.blob) if row is not None else ():
            _read_part(store, hash, description)
    except Damage as problem:
        position = "" if row is None else f" after record {row.at}"
        return f"the newest snapshot{position} cannot be read: {problem}"
    return None


def _read_part(store: Store, hash: Hash, description: str) -> None:
    try:
        store.blob(hash)
    except Erased:
        return
    except Damage as problem:
        raise Damage(f"{description}: {problem}") from problem
