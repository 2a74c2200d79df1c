"""Make a checkpoint of a world: extend its header log, sign, have it witnessed, and store it.

    frames ─▶ tiles, durable ─▶ note, signed ─▶ witnesses ─▶ time-stamp ─▶ DIR/log/checkpoint

A process that is killed anywhere leaves the old checkpoint with all its tiles, or the new one with
all of its own (spec/proofs.md, PF-25 to PF-29). The world may run meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.host.checkpoints.header_log import Extended, LogFolder, extend
from aos.host.checkpoints.named_files import write_named
from aos.host.checkpoints.timestamps import is_stamp_of, stamp
from aos.host.checkpoints.witness_service import seconds_now
from aos.host.checkpoints.witnesses import Witness, ask
from aos.host.folder.adoption import check_place
from aos.host.folder.adoption import origin_of as origin_of_world
from aos.host.folder.folder import WORLD_FILE, WorldFolder, open_folder
from aos.host.folder.restore import Progress
from aos.manifest.keys import key_text
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, origin_of
from aos.prove.headerlog.signed_note import Note, NoteKey
from aos.prove.headerlog.stored_log import OutsideCheckpoint
from aos.prove.proofs.sources import Source
from aos.store.bundle.reader import open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash

TIMESTAMP_SUFFIX = ".tsr"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCheckpoint:
    """A checkpoint that was stored. ``seq`` is the last record that it covers, ``added`` how many
    frames are new. ``failed`` are the services that did not answer, and why."""

    world: Hash
    checkpoint: Checkpoint
    note: Note
    key: NoteKey
    seq: int
    added: int
    path: Path
    timestamp: bytes | None
    cosigned: tuple[tuple[str, int], ...]
    failed: tuple[str, ...]


def make_checkpoint(
    world: Path,
    *,
    out: Path | None = None,
    witnesses: Sequence[Witness] = (),
    timestamp: str | None = None,
    archives: Sequence[Path] = (),
    rebuild: bool = False,
    progress: Progress | None = None,
) -> MadeCheckpoint:
    """Make a checkpoint of all durable frames, and store it.

    If a witness or the time-stamp server does not answer, the checkpoint is stored without, and
    ``failed`` says so.

    Raises:
        Damage: The journal does not continue the last checkpoint, or a witness has cosigned more of
            it. No checkpoint was stored.
        Pruned: The log is lost, and frames that it needs were pruned: name the ``archives``.
        Refused: The world is not adopted here, or the key in the folder is not its own.
        Unavailable: Another process makes a checkpoint, or a file cannot be written.
        BadUsage: There is no world here, or an archive is none.
    """
    folder = open_folder(world)
    with (
        contextlib.ExitStack() as stack,
        folder.open_store(readonly=True) as store,
        opened_log(folder, store) as log,
        log.locked(),
    ):
        bundles = [stack.enter_context(open_bundle(archive)) for archive in archives]
        maker = _Maker(folder, Source(store, archives=bundles), log)
        result = maker.make(witnesses, timestamp, rebuild=rebuild, progress=progress)
        if out is not None:
            if result.timestamp is not None:
                write_named(out.with_name(out.name + TIMESTAMP_SUFFIX), result.timestamp)
            write_named(out, result.note.full_text.encode())
        _note_outside(result, folder.path, out, log)
    return result


def _note_outside(result: MadeCheckpoint, world: Path, out: Path | None, log: LogFolder) -> None:
    """Keep in the log which checkpoint someone else holds, if it is this one (PF-29b)."""
    file = None if out is None else out.resolve()
    is_outside = file is not None and not file.is_relative_to(world.resolve())
    if is_outside or result.cosigned:
        log.put_outside(
            OutsideCheckpoint(
                note=result.note, checkpoint=result.checkpoint, seq=result.seq,
                file=os.fsencode(file).decode(errors="replace") if is_outside and file else None,
                time=seconds_now(),
            ).to_bytes()
        )  # fmt: skip


@contextlib.contextmanager
def opened_log(folder: WorldFolder, store: LmdbStore) -> Iterator[LogFolder]:
    """The world's header log, which is made if there is none.

    Raises:
        Refused: The world is not adopted here (B-60).
    """
    if origin_of_world(folder.path / WORLD_FILE, store) is not None:
        check_place(folder.path / WORLD_FILE, store)
    with LogFolder.of_world(folder.path, make=True) as log:
        assert log is not None, "it was made"
        yield log


def extend_before_prune(folder: WorldFolder, store: LmdbStore) -> bool:
    """Extend the header log before records are pruned, and sign it, so that proofs outlive the
    frames. Return whether there is a log: one that lacks frames which were pruned earlier, and has
    no checkpoint, is not begun.

    Raises: as ``make_checkpoint``, except ``Pruned``.
    """
    source = Source(store)
    with opened_log(folder, store) as log, log.locked():
        if log.checkpoint() is None and source.begins()[0]:
            return False
        _Maker(folder, source, log).make((), None)
    return True


class _Maker:
    """Makes one checkpoint."""

    def __init__(self, folder: WorldFolder, source: Source, log: LogFolder) -> None:
        self._folder = folder
        self._source = source
        self._log = log

    def make(
        self,
        witnesses: Sequence[Witness],
        timestamp: str | None,
        *,
        rebuild: bool = False,
        progress: Progress | None = None,
    ) -> MadeCheckpoint:
        world = self._folder.world
        key = self._folder.world_key()
        self._check_key(bytes(key.verify_key))
        public = log_key(world, bytes(key.verify_key))
        extended = extend(
            self._log, self._source, world, public.public, rebuild=rebuild, progress=progress
        )
        checkpoint = Checkpoint(origin=origin_of(world), size=extended.log.size, root=extended.root)
        note = checkpoint.signed(key)
        if extended.note is not None and extended.note.text == note.text:
            note = extended.note  # with its cosignatures
        note, cosigned, failed = _witnessed(note, checkpoint, extended, witnesses)
        stamped = self._stamp(note)
        if timestamp is not None:
            try:
                stamped = stamp(note, timestamp)
            except Unavailable as problem:
                failed.append(str(problem))
        self._log.put_checkpoint(note.full_text.encode(), stamped)
        for tile in extended.full:
            self._log.drop_partial(tile)
        return MadeCheckpoint(
            world=world, checkpoint=checkpoint, note=note, key=public, seq=extended.seq,
            added=extended.added, path=self._log.path / "checkpoint", timestamp=stamped,
            cosigned=tuple(cosigned), failed=tuple(failed),
        )  # fmt: skip

    def _check_key(self, public: bytes) -> None:
        """Raise Refused if the key in the folder is not the world's own."""
        expected = self._source.key_of(self._folder.world).key
        if public != expected:
            raise Refused(
                "keys/world.key is not this world's key; nothing was signed",
                expected=key_text(expected),
                actual=key_text(public),
                hint="restore the world's own key",
            )

    def _stamp(self, note: Note) -> bytes | None:
        """The stored time-stamp, if it is over this very checkpoint."""
        stored = self._log.timestamp()
        return stored if stored is not None and is_stamp_of(note, stored) else None


def _witnessed(
    note: Note, checkpoint: Checkpoint, extended: Extended, witnesses: Sequence[Witness]
) -> tuple[Note, list[tuple[str, int]], list[str]]:
    """Ask all witnesses. Damage that one finds ends it; silence is reported."""
    cosigned: list[tuple[str, int]] = []
    failed: list[str] = []
    old = 0 if extended.previous is None else extended.previous.size
    for witness in witnesses:
        try:
            signature = ask(witness, note, checkpoint, extended.log, old)
        except (Damage, BadUsage):
            raise
        except AosError as problem:
            failed.append(str(problem))
        else:
            note = note.with_signatures([signature])
            cosigned.append((signature.name, signature.time or 0))
    return note, cosigned, failed
