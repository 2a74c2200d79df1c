"""Fork a world: create another one that continues after a record (spec/bundle.md, B-70 to B-77).

The source is only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aos.core.journal.fork import forked_world_id as id_of
from aos.core.journal.fork import message_of
from aos.core.journal.frame import Frame, Head, seal
from aos.core.journal.inputs import CANCEL_OPEN
from aos.core.journal.records import Fork
from aos.core.journal.vocabulary import OPEN_WORK, word_of
from aos.core.kernel_protocol import KernelProtocol, step
from aos.errors import BadUsage, Refused
from aos.host.folder.adoption import Origin, set_origin
from aos.host.folder.folder import STORE, WorldFolder, open_folder
from aos.host.folder.making import NONCE_BYTES, Keys, check_names, finish, make_keys, making
from aos.host.folder.restore import Progress
from aos.host.stamps import Sources
from aos.host.transfer.exporting import Export, check_unpruned
from aos.host.transfer.importing import GROUP_BYTES, Intake
from aos.store.bundle.items import BundleHeader, ErasedValue
from aos.store.bundle.writer import ValuePositions
from aos.store.lmdb_store import LmdbStore
from aos.store.store import Store, head_of
from aos.values.digests import Hash, hash_text

FRAME_BYTES: Final = 256 * 1024
"""Approximate size of the frames with the records that the core makes for a fork."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A new fork. It has the records of ``parent`` up to ``at``. ``canceled`` counts effects that
    the fork ended, ``open_intents`` those that it left open."""

    folder: WorldFolder
    parent: Hash
    at: int
    seq: int
    canceled: int
    open_intents: int


def fork_world(
    source: Path,
    path: Path,
    *,
    at: int,
    open_work: str = CANCEL_OPEN,
    operator: str = "operator",
    executors: Sequence[str] = (),
    sources: Sources | None = None,
    progress: Progress | None = None,
) -> Forked:
    """Create a world in an empty or new folder that begins in the state of the world at ``source``
    after record ``at``, with its own keys and id. The source may run; it is not changed. If it
    raises, no files are left behind.

    Raises:
        BadUsage: There is no such world or record, or a name is invalid.
        Refused: The folder is not empty; the source's first records were pruned; or a value that
            the world needed at that record was erased.
        Damage: The source's journal or one of its values is damaged.
        Unavailable: The folder cannot be written.
    """
    check_names(operator, executors)
    folder = open_folder(source)
    with folder.open_store(readonly=True) as store:
        _check_source(folder, store, at)
        with making(path), LmdbStore.create(path / STORE) as new_store:
            set_origin(Origin.FORKED, new_store)
            chance = sources or Sources()
            keys = make_keys(path, operator, executors, chance)
            return _Forking(folder, store, new_store, at, progress).fork(
                path, keys, open_work, chance
            )


def _check_source(folder: WorldFolder, store: Store, at: int) -> None:
    head = head_of(store)
    check_unpruned(folder, store, hint="fork a copy that still has them")
    if not 1 <= at <= head.seq:
        raise BadUsage(
            "there is no such record", location=f"record {at}", expected=f"1 to {head.seq}"
        )


class _Forking:
    """One fork: first the records, then the values that they name, then the fork record."""

    def __init__(
        self,
        folder: WorldFolder,
        store: Store,
        new_store: LmdbStore,
        at: int,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._store = store
        self._at = at
        self._progress = progress
        first = store.frame_at(1)
        assert first is not None, "a journal has a first frame"
        self._intake = Intake(
            world=first.header.world,
            values=store,
            store=new_store,
            source_path=str(folder.path),
            keeps_snapshot=lambda mark: self._has_row(mark.seq, mark.at),
        )
        self._cut: Hash | None = None

    def fork(self, path: Path, keys: Keys, open_work: str, sources: Sources) -> Forked:
        for frame in self._frames():
            self._intake.take(frame)
            if self._progress is not None:
                self._progress(frame.header.last, self._at)
        self._intake.commit()
        kernel = self._intake.kernel
        erased = self._take_values()
        _check_needed(kernel, erased)
        parent, inherited = kernel.tip.world, kernel.figures().open_intents
        record = self._record(keys, open_work, erased, sources)
        self._intake.append(record)
        while step(kernel, None) is not None:
            if kernel.pending_bytes >= FRAME_BYTES:
                self._intake.seal(sources.salt())
        if kernel.pending_records:
            self._intake.seal(sources.salt())
        tip, open_intents = kernel.tip, kernel.figures().open_intents
        self._intake.commit(Head.of(tip).signed(keys.world))
        stamp_s = record.stamp.ns // 10**9
        new_folder = WorldFolder(
            path=path,
            world=tip.world,
            created=datetime.fromtimestamp(stamp_s, UTC).isoformat().replace("+00:00", "Z"),
            executors=MappingProxyType(dict(keys.executors)),
        )
        finish(new_folder, keys.operators)
        assert new_folder.world == id_of(record)
        return Forked(
            folder=new_folder,
            parent=parent,
            at=self._at,
            seq=tip.seq,
            canceled=inherited - open_intents,
            open_intents=open_intents,
        )

    def _frames(self) -> Iterator[Frame]:
        """The source's frames up to the record; the last frame is cut after it."""
        for frame in self._store.frames(1, self._at):
            if frame.header.last <= self._at:
                yield frame
                continue
            self._cut = frame.hash
            records = frame.records[: self._at + 1 - frame.header.first]
            yield seal(self._intake.kernel.tip, records, frame.salt)[0]

    def _take_values(self) -> tuple[Hash, ...]:
        """Copy the values that the records name. Return needed values that were erased later."""
        with contextlib.closing(_Values(self._intake)) as values:
            export = Export(self._folder, self._store, values, None)
            for frame in self._store.frames(1, self._at):
                export.records(frame.records[: self._at + 1 - frame.header.first])
            values.put()
            return tuple(
                erased_value.value for erased_value in values.erased if erased_value.seq > self._at
            )

    def _record(
        self, keys: Keys, open_work: str, erased: tuple[Hash, ...], sources: Sources
    ) -> Fork:
        tip = self._intake.kernel.tip
        open_work_word = word_of(OPEN_WORK, open_work)
        assert open_work_word is not None, (
            f"open work: expected one of {OPEN_WORK}, found {open_work!r}"
        )
        unsigned = Fork(
            seq=tip.seq + 1,
            stamp=sources.stamp(),
            parent=tip.world,
            at=tip.seq,
            frame=tip.frame,
            nonce=sources.random(NONCE_BYTES),
            world_key=bytes(keys.world.verify_key),
            operators=keys.operators,
            open_work=open_work_word,
            erased=erased,
            cut=self._cut,
            signature=b"",
        )
        return replace(unsigned, signature=keys.world.sign(message_of(unsigned)).signature)

    def _has_row(self, seq: int, at: int) -> bool:
        row = self._store.snapshot_before(at)
        return row is not None and row.seq == seq


@dataclass(slots=True)
class _Values:
    """Stores the values that an export finds in the new world; those that came with a record are
    there already."""

    intake: Intake
    erased: list[ErasedValue] = field(default_factory=list)
    _seen_hashes: ValuePositions = field(default_factory=ValuePositions)
    _unstored: dict[Hash, bytes] = field(default_factory=dict)
    _size: int = 0

    def has(self, value: Hash, /) -> bool:
        return value in self._seen_hashes

    def header(self, header: BundleHeader) -> None:
        """Ignored: the fork has its own header."""

    def frame(self, data: bytes) -> None:
        """Ignored: frames are copied separately."""

    def blob(self, value: Hash, data: bytes) -> None:
        self._seen_hashes.add(value)
        if not self.intake.store.has_blob(value):
            self._unstored[value] = data
            self._size += len(data)
            if self._size >= GROUP_BYTES:
                self.put()

    def erase(self, erased: ErasedValue) -> None:
        self._seen_hashes.add(erased.value)
        self.erased.append(erased)

    def put(self) -> None:
        """Store the values held so far."""
        if self._unstored:
            self.intake.store.put_blobs(self._unstored)
        self._unstored, self._size = {}, 0

    def close(self) -> None:
        self._seen_hashes.close()


def _check_needed(kernel: KernelProtocol, erased: Sequence[Hash]) -> None:
    """Raise Refused if a value that the world needed at that record was erased."""
    for value in erased:
        use = next(kernel.uses(value), None)
        if use is not None:
            raise Refused(
                f"the value {hash_text(value)} was erased since, and it was {use} then",
                location=f"record {kernel.tip.seq}",
                hint="fork the world at a later record, or before that value came",
            )
