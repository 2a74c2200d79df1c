"""Make a checkpoint of a world: extend its header log, sign, have it witnessed, and store it.

    frames ─▶ tiles, durable ─▶ note, signed ─▶ witnesses ─▶ time-stamp ─▶ DIR/log/checkpoint

A process that is killed anywhere leaves the old checkpoint with all its tiles, or the new one with
all of its own (spec/proofs.md, PF-25 to PF-29). The world may run meanwhile: each of its periodic
checkpoints is made in a child process, which is this module, run by its name (spec/cli.md, C-25).
It only reads the store. ``checkpoint_status`` is how far the checkpoints of a world reach (PF-29b).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.core.journal.frame import Head
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.host.checkpoints.attestations import Witness, ask, is_stamp_of, stamp
from aos.host.checkpoints.header_log import Extended, LogFolder, extend
from aos.host.checkpoints.named_files import write_named
from aos.host.folder.adoption import check_place
from aos.host.folder.adoption import origin_of as origin_of_world
from aos.host.folder.folder import WORLD_FILE, WorldFolder, open_folder
from aos.host.folder.restore import Progress
from aos.host.stamps import seconds_now
from aos.manifest.keys import key_text
from aos.private_memory import keep_memory_private
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint, origin_of
from aos.prove.headerlog.header_tree import read_header
from aos.prove.headerlog.signed_note import Note, NoteKey
from aos.prove.headerlog.stored_log import CHECKPOINT, OutsideCheckpoint, StoredLog, cosigners
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.sources import Source
from aos.store.bundle.reader import open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash

TIMESTAMP_SUFFIX = ".tsr"

_MODULE: Final = "aos.host.checkpoints.checkpointing"
NICE = 10
_PROBLEM_CHARS_MAX: Final = 2000


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


@contextlib.contextmanager
def periodic_checkpoints(
    world: Path, every_s: float, report: Callable[[str], None]
) -> Iterator[None]:
    """Make a checkpoint every so many seconds, and one when the block ends without an exception.

    A checkpoint that cannot be made is reported, and the world continues to run.
    """
    periodic = _Periodic(world, every_s, report)
    thread = threading.Thread(target=periodic.run, name="checkpoints", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        periodic.stop()
        thread.join()
        raise
    periodic.stop()
    thread.join()
    periodic.make()


class _Periodic:
    def __init__(self, world: Path, every_s: float, report: Callable[[str], None]) -> None:
        self._world = world
        self._every_s = every_s
        self._report = report
        self._over = threading.Event()
        self._last_problem = ""

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            self.make()

    def stop(self) -> None:
        self._over.set()

    def make(self) -> None:
        """Make one checkpoint, and report a failure, each once."""
        paths = os.pathsep.join(folder for folder in sys.path if folder)
        ended = subprocess.run(  # noqa: S603  # this interpreter, a module of ours, a folder
            [sys.executable, *QUICK_PROGRAM, _MODULE, str(self._world)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is for the world; its last checkpoint still comes
        )
        problem = ended.stderr.decode(errors="replace").strip()[-_PROBLEM_CHARS_MAX:]
        if ended.returncode and problem != self._last_problem:
            self._report(f"no checkpoint was made: {problem}")
        self._last_problem = problem if ended.returncode else ""


def main(world: Path) -> int:
    """Make a checkpoint in the child process; print why it could not be made."""
    os.nice(NICE)
    try:
        make_checkpoint(world)
    except AosError as problem:
        print(problem, file=sys.stderr)  # noqa: T201  # its parent reads it
        return problem.exit_code
    return 0


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(Path(sys.argv[1])))
