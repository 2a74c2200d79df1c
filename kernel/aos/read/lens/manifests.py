"""Find the manifest that was in force at a record: its schemas read the record's values
(spec/audit.md, A-3)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.manifest.named import is_document
from aos.read.lens.ports import Journal, RecordIndex, first_kept
from aos.values.cbor import encode
from aos.values.digests import Hash

IS_MANIFEST: Final = encode("kind") + encode("manifest")
"""Bytes that every manifest record contains, and other records seldom do."""


class Manifests:
    """The manifests that a journal put in force, in order.

    If an older record asks for a manifest that is not known yet, the journal is read once, up to
    the first known manifest; with an ``index``, only its manifests are read (IX-71). Of the
    manifests that pruned records put in force, only the last has a known place in the order.
    """

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._manifests: list[Effective] = []
        self._journal: Journal | None = None
        self._pruned: list[Effective] = []
        self.index: RecordIndex | None = None

    @classmethod
    def of(cls, state: State, journal: Journal) -> Manifests:
        """Return the manifests of the world whose ``state`` was folded from ``journal``."""
        manifests = cls()
        if state.manifest is not None:
            manifests.add(state.manifest_seq, state.manifest)
            manifests._journal = journal if state.serial > 1 else None
        return manifests

    def add(self, seq: int, manifest: Effective) -> None:
        """Add the next manifest, put in force by record ``seq``. A record that is not newer than
        the last one is ignored."""
        if not self._seqs or seq > self._seqs[-1]:
            self._seqs.append(seq)
            self._manifests.append(manifest)

    def at(self, seq: int) -> Effective | None:
        """Return the manifest in force when record ``seq`` was decided; None before the first."""
        if self._journal is not None and seq <= self._seqs[0]:
            self._read_older(self._journal)
        position = bisect_left(self._seqs, seq)
        return self._manifests[position - 1] if position else None

    def seq_at(self, seq: int) -> int | None:
        """Return the record that put the manifest of ``at`` in force; None before the first."""
        self.at(seq)
        position = bisect_left(self._seqs, seq)
        return self._seqs[position - 1] if position else None

    def with_workflow(self, name: str, hash: Hash) -> Effective | None:
        """Return the newest manifest that has this version of a workflow."""
        manifest = self._newest(name, hash)
        if manifest is None and self._journal is not None:
            self._read_older(self._journal)
            manifest = self._newest(name, hash)
        return manifest

    def _newest(self, name: str, hash: Hash) -> Effective | None:
        for manifest in reversed(self._manifests):
            workflow = manifest.workflows.get(name)
            if workflow is not None and workflow.hash == hash:
                return manifest
        for manifest in self._pruned:
            workflow = manifest.workflows.get(name)
            if workflow is not None and workflow.hash == hash:
                return manifest
        return None

    def _read_older(self, journal: Journal) -> None:
        self._journal = None
        older = Manifests()
        cut = journal.cut()
        if cut is not None:
            cut_state = load(cut.document, journal.blob)
            if cut_state.manifest is not None:
                older.add(cut_state.manifest_seq, cut_state.manifest)
            self._pruned = [
                Effective.from_document(data)
                for data in map(journal.blob, sorted(cut_state.pinned))
                if is_document(data)
            ]
        first, last = first_kept(journal), self._seqs[0] - 1
        for seq, hash in manifest_records(journal, first, last, self.index):
            older.add(seq, Effective.from_document(journal.blob(hash)))
        for seq, manifest in zip(self._seqs, self._manifests, strict=True):
            older.add(seq, manifest)
        self._seqs, self._manifests = older._seqs, older._manifests


def manifest_records(
    journal: Journal, first: int, last: int, index: RecordIndex | None = None
) -> Iterator[tuple[int, Hash]]:
    """Yield the records from ``first`` to ``last`` that put a manifest in force, with the hash of
    its document, the oldest first."""
    if index is not None:
        yield from ((seq, hash) for seq, hash in index.versions() if first <= seq <= last)
        return
    for frame in journal.frames(first, last):
        for data in frame.records:
            record = from_bytes(data) if IS_MANIFEST in data else None
            if isinstance(record, Manifest) and first <= record.seq <= last:
                yield record.seq, record.document.hash
