"""Import a bundle into a new world folder (spec/bundle.md, B-40 to B-45)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from aos.core.journal.frame import NO_FRAME, Frame, Head, Tip
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork, Governance, Manifest, Record, Snapshot
from aos.core.journal.signing import SIGNATURE_BYTES
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import KernelProtocol
from aos.core.pending import Sealed
from aos.core.snapshot.load import load
from aos.core.state.state import Mark
from aos.errors import BadUsage, Damage, Erased, Refused
from aos.host.folder.adoption import Origin, set_origin
from aos.host.folder.folder import KEYS, STORE, WorldFolder
from aos.host.folder.making import finish, making
from aos.host.folder.restore import Progress
from aos.manifest.judging import judge
from aos.read.lens.record_finding import references
from aos.store.bundle.reader import Bundle, open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash, hash_text

GROUP_FRAMES: Final = 256
GROUP_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a transaction; the last frame and its values may exceed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import. ``seq`` is the world's last record."""

    folder: WorldFolder
    seq: int
    frames: int
    blobs: int
    open_intents: int


def import_world(file: Path, path: Path, *, progress: Progress | None = None) -> Imported:
    """Create a world in an empty or new folder from a bundle.

    The world has no secret keys, and does not run until it is adopted. ``progress`` is called with
    (bytes checked or records imported, their total). If it raises, no files are left behind.

    Raises:
        BadUsage: There is no such file, or it is not a bundle.
        Damage: The bundle is damaged, or its journal does not match its head.
        Refused: The folder is not empty, or the bundle lacks values that were erased after its end.
        Unavailable: The file cannot be read, or the folder cannot be written.
    """
    with open_bundle(file) as bundle:
        if bundle.header.after is not None:
            raise BadUsage(
                f"{file}: this is an archive of records that were pruned: expected a bundle of a "
                "whole world (aos export makes one)"
            )
        bundle.check(progress)
        head = bundle.head()
        _check_values(bundle, head)
        with making(path):
            return _fill_folder(bundle, head, path, progress)


def _check_values(bundle: Bundle, head: Head) -> None:
    """Raise Refused if the bundle lacks values that were erased by a record after its end."""
    for erased in bundle.erased():
        if erased.seq > head.seq:
            raise Refused(
                f"the value {hash_text(erased.value)} was erased by record {erased.seq}, after "
                "the bundle's end",
                location=str(bundle.path),
                expected=f"the values that a world needs after record {head.seq}",
                hint=f"export the world to record {erased.seq} or later",
            )


def _fill_folder(bundle: Bundle, head: Head, path: Path, progress: Progress | None) -> Imported:
    header = bundle.header
    folder = WorldFolder(
        path=path, world=header.world, created=header.created, executors=header.executors
    )
    with folder.open_plain() as world:
        world.inner(KEYS, make=True).close()
    frames = bundle.frames()
    first = next(frames, None)
    if first is None:
        raise Damage(f"{bundle.path}: the journal is empty: it has no genesis")
    snapshots: list[Mark] = []

    def keeps_snapshot(mark: Mark) -> bool:
        is_whole = bundle.has_blob(mark.document)
        snapshots.extend([mark] if is_whole else [])
        return is_whole

    with LmdbStore.create(path / STORE) as store:
        set_origin(Origin.IMPORTED, store)
        intake = Intake(
            world=first.header.world,
            values=bundle,
            store=store,
            source_path=str(bundle.path),
            keeps_snapshot=keeps_snapshot,
        )
        for frame in itertools.chain([first], frames):
            intake.take(frame)
            if progress is not None:
                progress(frame.header.last, head.seq)
        kernel = intake.kernel
        _check_end(bundle, head, kernel)
        for mark in snapshots:
            _check_manifests(bundle, mark, intake.manifests)
        intake.commit(head)
        blobs = intake.put(bundle.blob_hashes())
    standing = kernel.figures()
    finish(folder, standing.operators)
    return Imported(
        folder=folder,
        seq=kernel.tip.seq,
        frames=kernel.tip.log.size,
        blobs=blobs,
        open_intents=standing.open_intents,
    )


def _check_end(bundle: Bundle, head: Head, kernel: KernelProtocol) -> None:
    """Raise Damage if the journal does not match its head, the world's key has not signed the head,
    or the header is of another world."""
    bundle_path, header = str(bundle.path), bundle.header
    tip, world = kernel.tip, kernel.figures()
    if Head.of(tip).message() != head.message():
        raise Damage(
            "the journal does not end as its head says",
            location=bundle_path,
            expected=f"record {head.seq}",
            actual=f"record {tip.seq}",
        )
    if not head.is_signed_by(world.world_key):
        raise Damage(f"{bundle_path}: the head is not signed by the world's key")
    identity = (header.world, header.world_key, header.operators)
    if identity != (tip.world, world.world_key, world.operators):
        raise Damage(f"{bundle_path}: the header does not say what the genesis says")


def _check_manifests(bundle: Bundle, mark: Mark, manifests: AbstractSet[Hash]) -> None:
    """Raise Damage if a snapshot has a manifest or module that is not in ``manifests``, so that no
    record has put it in force: a start begins with a snapshot, and reads its manifests without
    judging them (M-46)."""
    taken = load(mark.document, bundle.blob, manifest_of=judge)
    if not {*taken.pinned, *(era.manifest for era in taken.eras.all)} <= manifests:
        raise Damage(
            f"{bundle.path}: the snapshot of record {mark.seq} has a manifest that no record puts "
            "in force (run aos verify for details)"
        )


class Values(Protocol):
    """The source of the journal's values."""

    def blob(self, hash: Hash, /) -> bytes:
        """Return the bytes of a value of the journal.

        Raises:
            Erased: They were erased.
            Damage: They are missing or altered.
        """


@dataclass(slots=True)
class Intake:
    """Writes the frames of a journal into an empty store, beginning with the genesis of ``world``
    (B-41, B-42).

    Every frame is verified, folded and appended as in a running world, so that the store gets the
    same index rows.

    ``source_path`` names their source in errors; ``keeps_snapshot`` decides whether a snapshot's
    parts are stored. ``kernel`` has all frames taken; those since the last ``commit`` are not
    durable yet. ``manifests`` are all manifests of the journal with their modules.
    """

    world: Hash
    values: Values
    store: LmdbStore
    source_path: str
    keeps_snapshot: Callable[[Mark], bool]
    kernel: KernelProtocol = field(init=False)
    manifests: set[Hash] = field(default_factory=set)
    _group: list[Sealed] = field(default_factory=list)
    _size: int = 0
    _follows: Hash = NO_FRAME
    _group_values: dict[Hash, bytes] = field(default_factory=dict)
    """Values of the current group of frames."""
    _erased_values: set[Hash] = field(default_factory=set)
    """Values that the group erases and the store still has."""

    def __post_init__(self) -> None:
        self.kernel = open_kernel(world=self.world, read=self._read, manifest_of=judge)

    def take(self, frame: Frame) -> None:
        """Add a frame. Raises: Damage: It does not follow, or one of its values is missing."""
        if len(self._group) >= GROUP_FRAMES or self._size >= GROUP_BYTES or self._changes(frame):
            # Only when the next frame is here, because the last group gets the signed head.
            self.commit()
        for data in frame.records:
            self.append(from_bytes(data))
        sealed = self.seal(frame.salt)
        if sealed.frame != frame:
            raise Damage(
                f"frame {frame.header.first} does not follow the one before it, or was altered",
                location=self.source_path,
                expected=f"hash {sealed.frame.hash.hex()[:16]}",
                actual=frame.hash.hex()[:16],
                hint="run aos verify for details",
            )

    def append(self, record: Record) -> None:
        """Add a record with the values that it needs and the store does not have. Nothing is
        durable before ``commit``."""
        self.kernel.append(record, dict(self._values(record)))
        for value in _erased_by(record):
            self._group_values.pop(value, None)
            self._erased_values.add(value)

    def seal(self, salt: bytes) -> Sealed:
        """Seal the records since the last frame, as the next frame of the group that ``commit``
        writes."""
        sealed = self.kernel.seal(salt)
        assert sealed is not None, "a frame holds records"
        sealed = replace(sealed, snapshots=tuple(filter(self.keeps_snapshot, sealed.snapshots)))
        self._group_values.update(sealed.blobs)
        self._group.append(sealed)
        self._size += sum(map(len, (*sealed.frame.records, *sealed.blobs.values())))
        return sealed

    def commit(self, head: Head | None = None) -> None:
        """Make the frames so far durable, under ``head``, or under an unsigned head while the
        folder is not finished."""
        if self._group:
            head = head or _unsigned_head(self._group[-1].tip)
            self.store.append(self._group, head, expected=self._follows)
            self._follows = head.frame
            self._group, self._size = [], 0
            self._group_values, self._erased_values = {}, set()

    def put(self, hashes: Iterable[Hash]) -> int:
        """Store values that came with no record; return how many of ``hashes`` exist."""
        missing: dict[Hash, bytes] = {}
        size = count = 0
        for value in hashes:
            count += 1
            if self.store.has_blob(value):
                continue
            missing[value] = self.values.blob(value)
            size += len(missing[value])
            if size >= GROUP_BYTES:
                self.store.put_blobs(missing)
                missing, size = {}, 0
        if missing:
            self.store.put_blobs(missing)
        return count

    def _changes(self, frame: Frame) -> bool:
        """Whether another world begins with ``frame``: a transaction belongs to one world."""
        return bool(self._group) and self._group[-1].frame.header.world != frame.header.world

    def _values(self, record: Record) -> Iterator[tuple[Hash, bytes]]:
        """The values that come with a record: those that are not stored. One that was erased later
        has no bytes any more."""
        for value in self._needed_values(record):
            if value in self._group_values or (
                value not in self._erased_values and self.store.has_blob(value)
            ):
                continue
            try:
                data = self.values.blob(value)
            except Erased:
                continue
            self._group_values[value] = data
            self._erased_values.discard(value)
            yield value, data

    def _needed_values(self, record: Record) -> Iterator[Hash]:
        if isinstance(record, Snapshot):
            return  # with the rest: nothing that is folded here needs it
        for _, reference in references(record):
            yield reference.hash
        if isinstance(record, Manifest):
            effective = judge(self.values.blob(record.document.hash))
            modules = [module.hash for module in effective.modules.values()]
            self.manifests.update((record.document.hash, *modules))
            yield from modules
        if isinstance(record, Governance) and record.document is not None:
            with contextlib.suppress(Erased):
                judge(self.values.blob(record.document.hash))

    def _read(self, hash: Hash, /) -> bytes:
        value = self._group_values.get(hash)
        return self.values.blob(hash) if value is None else value


def _erased_by(record: Record) -> tuple[Hash, ...]:
    if isinstance(record, Fork):
        return record.erased
    if isinstance(record, Control) and record.action == ERASE and record.value is not None:
        return (Hash(record.value),)
    return ()


def _unsigned_head(tip: Tip) -> Head:
    """The unsigned head of a folder that is not finished and cannot be opened yet."""
    head = Head.of(tip)
    return Head(
        world=head.world, seq=head.seq, frame=head.frame, log_root=head.log_root,
        frames=head.frames, signature=bytes(SIGNATURE_BYTES),
    )  # fmt: skip
