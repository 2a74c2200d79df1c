"""Import a bundle into a new world folder (spec/bundle.md, B-40 to B-45)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from aos.core.journal.frame import Head
from aos.core.state.state import State
from aos.errors import BadUsage, Damage, Refused, sentence
from aos.host.folder.adoption import Origin, set_origin
from aos.host.folder.folder import KEYS, STORE, WorldFolder, finish, making
from aos.host.folder.restore import Progress
from aos.host.transfer.intake import Intake
from aos.store.bundle.reader import Bundle, open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import hash_text


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
            return _fill(bundle, head, path, progress)


def _check_values(bundle: Bundle, head: Head) -> None:
    """Raise Refused if the bundle lacks values that were erased by a record after its end."""
    for erased in bundle.erased():
        if erased.seq > head.seq:
            raise Refused(
                sentence(
                    f"the value {hash_text(erased.value)} was erased by record {erased.seq}, after "
                    "the bundle's end",
                    location=str(bundle.path),
                    expected=f"the values that a world needs after record {head.seq}",
                    hint=f"export the world to record {erased.seq} or later",
                )
            )


def _fill(bundle: Bundle, head: Head, path: Path, progress: Progress | None) -> Imported:
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
    with LmdbStore.create(path / STORE) as store:
        set_origin(Origin.IMPORTED, store)
        intake = Intake(
            world=first.header.world,
            values=bundle,
            store=store,
            source_path=str(bundle.path),
            keeps_snapshot=lambda mark: bundle.has_blob(mark.document),
        )
        for frame in itertools.chain([first], frames):
            intake.take(frame)
            if progress is not None:
                progress(frame.header.last, head.seq)
        _check_end(bundle, head, intake.state)
        intake.commit(head)
        blobs = intake.put(bundle.blob_hashes())
    state = intake.state
    finish(folder, state.operators)
    return Imported(
        folder=folder,
        seq=state.tip.seq,
        frames=state.tip.log.size,
        blobs=blobs,
        open_intents=len(state.intents),
    )


def _check_end(bundle: Bundle, head: Head, state: State) -> None:
    """Raise Damage if the journal does not match its head, the world's key has not signed the head,
    or the header is of another world."""
    bundle_path, header = str(bundle.path), bundle.header
    if Head.of(state.tip).message() != head.message():
        raise Damage(
            sentence(
                "the journal does not end as its head says",
                location=bundle_path,
                expected=f"record {head.seq}",
                actual=f"record {state.tip.seq}",
            )
        )
    if not head.is_signed_by(state.world_key):
        raise Damage(f"{bundle_path}: the head is not signed by the world's key")
    identity = (header.world, header.world_key, header.operators)
    if identity != (state.world, state.world_key, state.operators):
        raise Damage(f"{bundle_path}: the header does not say what the genesis says")
