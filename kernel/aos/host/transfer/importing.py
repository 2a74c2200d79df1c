"""Import a bundle into a new world folder (spec/bundle.md, B-40 to B-45)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.core.journal.frame import NO_FRAME, Frame, Head, Tip
from aos.core.journal.records import Record
from aos.core.journal.signing import SIGNATURE_BYTES
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import KernelProtocol
from aos.core.pending import Sealed
from aos.core.snapshot.load import load
from aos.core.state.state import Mark
from aos.errors import BadUsage, Damage, Refused
from aos.host.folder.adoption import Origin, set_origin
from aos.host.folder.folder import KEYS, STORE, WorldFolder
from aos.host.folder.making import finish, making
from aos.host.folder.restore import Progress
from aos.host.transfer.intake import FrameIntake, Values
from aos.manifest.judging import judge
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


class Intake(FrameIntake):
    """Writes the frames of a journal into an empty store, beginning with the genesis of ``world``
    (B-41, B-42). Its kernel has all frames taken; those since the last ``commit`` are not durable
    yet."""

    def __init__(
        self,
        *,
        world: Hash,
        values: Values,
        store: LmdbStore,
        source_path: str,
        keeps_snapshot: Callable[[Mark], bool],
    ) -> None:
        super().__init__(
            open_kernel(world=world, read=self._read, manifest_of=judge),
            values=values,
            store=store,
            source_path=source_path,
            keeps_snapshot=keeps_snapshot,
        )
        self._follows: Hash = NO_FRAME

    def take(self, frame: Frame, records: Sequence[Record] | None = None) -> Sealed:
        """As ``FrameIntake.take``; a group that is full becomes durable first."""
        if (
            len(self.group) >= GROUP_FRAMES
            or self.group_bytes >= GROUP_BYTES
            or self._changes(frame)
        ):
            # Only when the next frame is here, because the last group gets the signed head.
            self.commit()
        return super().take(frame, records)

    def commit(self, head: Head | None = None) -> None:
        """Make the frames so far durable, under ``head``, or under an unsigned head while the
        folder is not finished."""
        if self.group:
            head = head or _unsigned_head(self.group[-1].tip)
            self.store.append(self.group, head, expected=self._follows)
            self._follows = head.frame
            self.end_group()

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
        return bool(self.group) and self.group[-1].frame.header.world != frame.header.world


def _unsigned_head(tip: Tip) -> Head:
    """The unsigned head of a folder that is not finished and cannot be opened yet."""
    head = Head.of(tip)
    return Head(
        world=head.world, seq=head.seq, frame=head.frame, log_root=head.log_root,
        frames=head.frames, signature=bytes(SIGNATURE_BYTES),
    )  # fmt: skip
