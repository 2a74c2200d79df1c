"""The records that a shadow follows: those of a store or of a bundle, in a range (spec/shadow.md,
SH-5 to SH-8).

A shadow begins at a record that changes no cell: a ``manifest`` that came into force, a ``start``
or a ``snapshot``. It ends before the next manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.frame import Frame, Tip
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Snapshot, Start
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.load import load
from aos.core.state.state import State, empty
from aos.errors import BadUsage, Damage, sentence
from aos.manifest.judging import judge
from aos.prove.verify.pruned_journal import Beginning, beginning, beginning_of
from aos.store.bundle.reader import Bundle
from aos.store.store import Store
from aos.values.cbor import encode
from aos.values.digests import Hash

DEFAULT_RECORDS: Final = 10_000
"""How many records a shadow follows at least, if the base has been in force for as many."""

_START_KINDS: Final = tuple(
    encode("kind") + encode(record_type.KIND) for record_type in (Manifest, Snapshot, Start)
)
"""Bytes that every such record contains, and other records seldom do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSource:
    """``frames(first, last)`` are those with these records. ``first`` is the first record that is
    kept, ``last`` the durable end. ``begins`` is where a pruned journal continues from.
    ``snapshots`` maps the record that a kept snapshot was taken after to its document. ``limits``
    are others than those of every world only in tests."""

    frames: Callable[[int, int], Iterator[Frame]]
    blob: BlobReader
    has_blob: Callable[[Hash], bool]
    first: int
    last: int
    begins: Beginning | None
    snapshots: dict[int, Hash]
    limits: Limits = LIMITS

    def state_before(self, seq: int) -> State:
        """Return a state at or before record ``seq`` - 1, from the newest snapshot there.

        Raises:
            Damage: A snapshot cannot be read.
        """
        for at in sorted(self.snapshots, reverse=True):
            if at < seq and self.has_blob(self.snapshots[at]):
                return load(self.snapshots[at], self.blob, limits=self.limits, manifest_of=judge)
        if self.begins is not None:
            return self.begins.state(self.blob)
        first = next(self.frames(self.first, self.first))
        return empty(
            Tip(world=first.header.world), self.blob, limits=self.limits, manifest_of=judge
        )


def source_of_store(store: Store) -> ShadowSource:
    """Raises: Damage: The head, or where a pruned journal begins, cannot be read."""
    head, cut = store.head(), store.cut()
    if head is None:
        raise Damage("the store is empty: expected the genesis record of a world")
    return ShadowSource(
        frames=store.frames,
        blob=store.blob,
        has_blob=store.has_blob,
        first=1 if cut is None else cut.seq + 1,
        last=head.seq,
        begins=None if cut is None else beginning(store, cut),
        snapshots={snapshot.at: snapshot.document for snapshot in store.snapshots()},
    )


def source_of_bundle(bundle: Bundle) -> ShadowSource:
    """Raises: Damage: The file was altered, or where an archive begins cannot be read."""
    bundle.check()

    def frames(first: int, last: int) -> Iterator[Frame]:
        for frame in bundle.frames():
            if frame.header.first > last:
                return
            if frame.header.last >= first:
                yield frame

    begins = beginning_of(bundle)
    return ShadowSource(
        frames=frames,
        blob=bundle.blob,
        has_blob=bundle.has_blob,
        first=1 if begins is None else begins.tip.seq + 1,
        last=bundle.head().seq,
        begins=begins,
        snapshots={},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRange:
    """``first`` is the record that the proposed manifest replaces, ``last`` the last one that the
    shadow follows."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _StartPoint:
    seq: int
    is_manifest: bool


_StartPoints: TypeAlias = list[_StartPoint]


def chosen_range(
    source: ShadowSource,
    *,
    first: int | None = None,
    last: int | None = None,
    is_all: bool = False,
    around: int | None = None,
    records: int = 0,
) -> RecordRange:
    """Return the range for ``--from``, ``--to`` and ``--all``; without them the default one.
    Without ``--to`` it may end as early as the manifest that was in force at record ``around``.
    The default one has ``records`` records or ``DEFAULT_RECORDS``, if the base has so many.

    Raises:
        BadUsage: There is no such record, or no place where a shadow can begin before it.
        Damage: A record cannot be read.
    """
    end = source.last if last is None else last
    for name, seq in (("--to", end), ("--from", first)):
        if seq is not None and not source.first <= seq <= source.last:
            raise BadUsage(
                sentence(
                    f"{name}: there is no such record",
                    expected=f"a record from {source.first} to {source.last}",
                    actual=str(seq),
                )
            )
    points = list(_start_points(source))
    if last is None and around is not None:
        next_one = (point.seq for point in points if point.is_manifest and point.seq > around)
        end = next(next_one, end + 1) - 1
    points = [point for point in points if point.seq <= end]
    if first is not None and first > end:
        raise BadUsage(
            sentence("--from: it is after the end", expected=f"at most {end}", actual=str(first))
        )
    behind = max(records, DEFAULT_RECORDS)
    if first is not None:
        begins = _start_before(source, points, first)
    else:
        begins = _start_in_era(source, points, None if is_all else end - behind)
    later = [point.seq for point in points if point.is_manifest and point.seq > begins]
    return RecordRange(first=begins, last=min([end, *(seq - 1 for seq in later)]))


def _start_before(source: ShadowSource, points: _StartPoints, seq: int) -> int:
    """The nearest place at or before a record."""
    earlier_seqs = [point.seq for point in points if point.seq <= seq]
    if not earlier_seqs:
        raise BadUsage(
            sentence(
                "--from: no shadow can begin there",
                expected=f"a record from {_first_start(source, points)} on, where a manifest, a "
                "start or a snapshot is recorded",
                actual=str(seq),
            )
        )
    return earlier_seqs[-1]


def _start_in_era(source: ShadowSource, points: _StartPoints, seq_max: int | None) -> int:
    """The last place of the manifest in force that is at most record ``seq_max``; without one, or
    with None, the first."""
    bases = [index for index, point in enumerate(points) if point.is_manifest]
    era = points[bases[-1] if bases else 0 :]
    if not era:
        raise BadUsage(_first_start(source, points))
    behind = [point.seq for point in era if seq_max is not None and point.seq <= seq_max]
    return behind[-1] if behind else era[0].seq


def _first_start(source: ShadowSource, points: _StartPoints) -> str:
    if points:
        return str(points[0].seq)
    return (
        f"the journal from record {source.first} on has no manifest, and no start or snapshot "
        "under one: nothing to shadow"
    )


def _start_points(source: ShadowSource) -> Iterator[_StartPoint]:
    """The records where a shadow can begin, in order: those with a manifest in force afterwards."""
    begins = source.begins
    is_in_force = begins is not None and begins.state(source.blob).manifest is not None
    for frame in source.frames(source.first, source.last):
        for data in frame.records:
            if not any(kind in data for kind in _START_KINDS):
                continue
            record = from_bytes(data)
            is_manifest = isinstance(record, Manifest)
            is_in_force |= is_manifest
            if is_in_force and isinstance(record, Manifest | Snapshot | Start):
                yield _StartPoint(record.seq, is_manifest)
