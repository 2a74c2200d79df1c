"""How far the checkpoints of a world reach (spec/proofs.md, PF-29b)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from aos.core.journal.frame import Head
from aos.errors import Damage
from aos.host.folder.folder import open_folder
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint
from aos.prove.headerlog.header_tree import read_header
from aos.prove.headerlog.signed_note import Note, NoteKey
from aos.prove.headerlog.stored_log import CHECKPOINT, OutsideCheckpoint, StoredLog, cosigners
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.sources import Source
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCheckpoint:
    """The newest checkpoint in ``DIR/log/``. ``seq`` is the last record that it covers."""

    checkpoint: Checkpoint
    note: Note
    seq: int
    path: Path
    is_stamped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """The durable end of a journal, its newest checkpoint, and the last one that was kept outside
    of the world's folder. Both are None if there never was one."""

    world: Hash
    head: Head
    latest: LatestCheckpoint | None
    outside: OutsideCheckpoint | None


def checkpoint_status(world: Path) -> CheckpointStatus:
    """Read the status of a world's checkpoints. The world may run meanwhile.

    Raises:
        Damage: The journal is shorter than one of the checkpoints, or one cannot be read.
        BadUsage: There is no world here.
    """
    folder = open_folder(world)
    with contextlib.ExitStack() as stack:
        source = Source(stack.enter_context(folder.open_store(readonly=True)))
        log = stack.enter_context(StoredLog.of_world(folder.path))
        key = log_key(folder.world, source.key_of(folder.world).key)
        latest = None if log is None else _latest(log, key)
        outside = None if log is None else _outside(log, key, latest)
        # Read last: the journal grows meanwhile, and never shrinks.
        head = source.head()
    for stored in (latest, outside):
        if stored is not None and stored.checkpoint.size > head.frames:
            raise Damage(
                "the journal is shorter than a checkpoint of it",
                expected=f"at least {stored.checkpoint.size} frames",
                actual=f"{head.frames}",
                hint="the journal was rolled back; restore the newer one",
            )
    return CheckpointStatus(world=folder.world, head=head, latest=latest, outside=outside)


def _latest(log: StoredLog, key: NoteKey) -> LatestCheckpoint | None:
    stored = log.checkpoint()
    if stored is None:
        return None
    checkpoint, note = open_checkpoint(stored, key)
    if checkpoint.size == 0:
        return None
    last = read_header(TiledLog(checkpoint.size, log.read_tile).header(checkpoint.size - 1)).last
    return LatestCheckpoint(
        checkpoint=checkpoint, note=note, seq=last, path=log.path / CHECKPOINT,
        is_stamped=log.timestamp() is not None,
    )  # fmt: skip


def _outside(
    log: StoredLog, key: NoteKey, latest: LatestCheckpoint | None
) -> OutsideCheckpoint | None:
    data = log.outside()
    if data is not None:
        return OutsideCheckpoint.from_bytes(data, key)
    times = () if latest is None else [time for _, time in cosigners(latest.note)]
    if latest is None or not times:
        return None
    # An earlier release did not write the file. A witness keeps each checkpoint that it cosigns.
    return OutsideCheckpoint(
        note=latest.note, checkpoint=latest.checkpoint, seq=latest.seq, file=None, time=max(times)
    )
