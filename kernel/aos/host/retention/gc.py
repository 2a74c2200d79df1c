"""``aos gc``: remove the data that a world no longer needs (spec/state.md, RT-10 to RT-24)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from aos.errors import AosError, Unavailable
from aos.fastcore.core_kind import CoreKind
from aos.host.door.way import WaitPatience
from aos.host.door.writer import Writer, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.restore import Progress
from aos.host.folder.second_fold import SecondFold
from aos.host.retention.marking import REASONS, Beat, Marks, mark
from aos.host.retention.pruning import batches
from aos.store.rows import Forget
from aos.store.store import Store
from aos.values.digests import Hash

SNAPSHOTS_KEPT: Final = 3
BLOBS_AT_ONCE: Final = 8192
"""Maximum number of items that one request removes."""

BEAT_S: Final = 30.0
"""How often the world is told that marking is in progress."""


@dataclass(slots=True)
class Tally:
    """How many blobs there are, and how many bytes they have together."""

    blobs: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one blob of ``size`` bytes."""
        self.blobs += 1
        self.bytes += size


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The data that was removed, or with ``is_dry`` would be. ``seq`` is the last marked record,
    ``kept_by_reason`` counts the data that stays, by reason; a snapshot is named by the record
    after which it was taken. ``removed`` counts the data that was not needed when it was marked;
    ``spared`` of these came again since and stayed. ``is_compacted`` is None if the store was not
    compacted, because the world runs or there was nothing to do."""

    world: Hash
    seq: int
    is_dry: bool
    kept_by_reason: dict[str, Tally]
    removed: Tally
    spared: int
    snapshots_kept: tuple[int, ...]
    snapshots_gone: tuple[int, ...]
    puts_gone: int
    is_compacted: bool | None = None


def collect_world(
    path: Path,
    *,
    keep: int = SNAPSHOTS_KEPT,
    is_dry: bool = False,
    core: CoreKind | None = None,
    patience: WaitPatience | None = None,
    progress: Progress | None = None,
) -> Collected:
    """Mark the data that the world at ``path`` needs and remove the rest, through the process that
    runs the world or with its lock.

    ``core`` and ``patience`` are as for ``open_writer``.

    ``keep`` is how many of the newest snapshots stay, at least 1. A dry run removes nothing. If the
    process is killed at any point, only data that is not needed is gone, and the next run
    continues.

    Raises:
        BadUsage: There is no such world.
        Damage: Data that is needed cannot be read. Nothing was removed.
        Unavailable: The world is busy or held, or another marking began. The data removed until
            then stays removed.
    """
    folder, second = open_folder(path), SecondFold(outside=path)
    if is_dry:
        with folder.open_store(readonly=True) as store:
            marks = mark(store, keep=keep, base=0, beat=_beat_of(progress), second=second)
            return _Sweep(folder.world, store, marks, None).collected()
    with open_writer(path, core=core, patience=patience, progress=progress) as writer:
        begun = writer.begin_marking()
        marking = _OpenMarking(writer, begun.token)
        with marking, folder.open_store(readonly=True) as store:
            beat = marking.watched(_beat_of(progress))
            marks = mark(store, keep=keep, base=begun.base, beat=beat, second=second)
            collected = _Sweep(folder.world, store, marks, marking).collected()
        return replace(
            collected, is_compacted=_compacted(writer) if collected.removed.blobs else None
        )


def _compacted(writer: Writer) -> bool | None:
    try:
        return writer.compact() or None
    except Unavailable:
        return False  # no disk space for a second file; the freed pages are reused in any case


def _beat_of(progress: Progress | None) -> Beat:
    return progress or (lambda _seq, _last: None)


class _OpenMarking:
    """A marking that is kept open until the end of the block. A thread tells the world about it,
    because one step of a large marking may take longer than the world waits (RT-26)."""

    def __init__(self, writer: Writer, token: int) -> None:
        self._writer = writer
        self._token = token
        self._lock = threading.Lock()
        """Held during each request: a writer serves one thread at a time."""
        self._is_over = threading.Event()
        self._problem: AosError | None = None
        self._thread = threading.Thread(target=self._run, name="aos-gc", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._writer.end_marking(self._token)

    def _run(self) -> None:
        while not self._is_over.wait(BEAT_S):
            try:
                with self._lock:
                    self._writer.still_marking(self._token)
            except AosError as problem:
                self._problem = problem
                return

    def watched(self, beat: Beat) -> Beat:
        """``beat``, which then also raises why the world has given up the marking, if so."""

        def checked_beat(seq: int, last: int) -> None:
            beat(seq, last)
            if self._problem is not None:
                raise self._problem

        return checked_beat

    def forget(self, rows: Forget) -> int:
        """As ``Writer.forget``."""
        with self._lock:
            return self._writer.forget(self._token, rows)


@dataclass(slots=True)
class _Sweep:
    """Removes the data that is not marked; without a ``marking`` it only counts it."""

    world: Hash
    store: Store
    marks: Marks
    marking: _OpenMarking | None
    _kept_by_reason: dict[str, Tally] = field(
        default_factory=lambda: {reason: Tally() for reason in REASONS}
    )
    _removed: Tally = field(default_factory=Tally)
    _spared: int = 0

    def collected(self) -> Collected:
        marks = self.marks
        # Rows before the blobs that they name: a reader must not find a row without its blob.
        self._forget(Forget(snapshots=[row.at for row in marks.snapshots_gone]))
        for rows in batches(marks.over, BLOBS_AT_ONCE):
            self._forget(Forget(puts=[row.key for row in rows]))
        for blobs in batches(self._dead(), BLOBS_AT_ONCE):
            self._spared += len(blobs) - self._forget(Forget(blobs=blobs))
        return Collected(
            world=self.world,
            seq=marks.seq,
            is_dry=self.marking is None,
            kept_by_reason=self._kept_by_reason,
            removed=self._removed,
            spared=self._spared,
            snapshots_kept=tuple(row.at for row in marks.snapshots_kept),
            snapshots_gone=tuple(row.at for row in marks.snapshots_gone),
            puts_gone=len(marks.over),
        )

    def _dead(self) -> Iterator[Hash]:
        """Yield the blobs that are not needed, each before those on which its delta depends: the
        store keeps a base as long as a delta depends on it (ST-92)."""
        deltas: list[tuple[int, Hash]] = []
        full_blobs: list[Hash] = []
        for hash, size in self.store.blob_sizes():
            reason = self.marks.live.get(hash)
            if reason is not None:
                self._kept_by_reason[reason].add(size)
                continue
            self._removed.add(size)
            delta = self.store.delta(hash)
            if delta is None:
                full_blobs.append(hash)
            else:
                deltas.append((delta.chain, hash))
        yield from (hash for _, hash in sorted(deltas, reverse=True))
        yield from full_blobs

    def _forget(self, rows: Forget) -> int:
        if self.marking is None or not len(rows):
            return len(rows)
        return self.marking.forget(rows)
