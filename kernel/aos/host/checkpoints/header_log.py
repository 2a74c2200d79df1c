"""Extend the files of a header log to the durable end of the journal (spec/proofs.md, PF-25 to
PF-28).

Rule 1: the old checkpoint must be the beginning of the new one. This is checked before a tile is
written, so a log that a journal was rolled back behind, or that it contradicts, stays as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aos.core.journal.frame import NO_FRAME, Frame, Head, Header
from aos.errors import Damage, Pruned, Unavailable
from aos.host.folder.restore import Progress
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint
from aos.prove.headerlog.header_tree import header_bytes, leaf_hash, node_hash, read_header, root
from aos.prove.headerlog.signed_note import Note
from aos.prove.headerlog.stored_log import CHECKPOINT, OUTSIDE, TIMESTAMP, StoredLog
from aos.prove.headerlog.tiles import WIDTH, DamagedTile, Growth, Tile, TiledLog, entries_tile
from aos.prove.proofs.sources import Source
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash

_LOCK: Final = ".lock"
"""In the log's folder, ``DIR/log``: held while one process extends the log."""


class LogFolder(StoredLog):
    """An open folder of a header log, to write its files (spec/proofs.md, PF-25, PF-29). A file is
    there whole or not at all."""

    def put_tile(self, tile: Tile, data: bytes) -> None:
        """Write a tile. ``sync`` makes its name durable."""
        *folders, name = tile.path
        self._put(self._open(tuple(folders), make=True), name, data)

    def sync(self) -> None:
        """Make the names of everything that was put durable."""
        for folder in (*self._inner.values(), self._folder):
            folder.sync()

    def put_checkpoint(self, note: bytes, timestamp: bytes | None) -> None:
        """Replace the checkpoint, durably. The tiles must be durable."""
        if timestamp is None:
            self._folder.remove(TIMESTAMP)
        else:
            self._put(self._folder, TIMESTAMP, timestamp)
        self._put(self._folder, CHECKPOINT, note)
        self._folder.sync()

    def put_outside(self, data: bytes) -> None:
        """Replace the note of the last checkpoint that was kept outside, durably."""
        self._put(self._folder, OUTSIDE, data)
        self._folder.sync()

    def drop_partial(self, tile: Tile) -> None:
        """Remove the partial tiles that a full one replaces."""
        *folders, name = tile.path
        folder = self._open(tuple(folders))
        partial = f"{name}.p"
        if folder is None or not tile.is_full or folder.find(partial) is None:
            return
        with folder.inner(partial) as inner:
            for file_name in list(inner.names()):
                inner.remove(file_name)
        with contextlib.suppress(OSError):
            folder.remove_folder(partial)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Extend the log alone, until the block ends.

        Raises:
            Unavailable: Another process extends it now.
        """
        fd = self._folder.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(
                    f"{self.path}: another process makes a checkpoint now (try again)"
                ) from None
            yield
        finally:
            os.close(fd)

    def _put(self, folder: PlainFolder | None, name: str, data: bytes) -> None:
        assert folder is not None
        try:
            if _has_content(folder, name, data):
                return
            folder.put(name, data, 0o644)
        except OSError as problem:
            raise Unavailable(
                f"{folder.path / name}: the header log cannot be written: {problem.strerror}"
            ) from problem


def _has_content(folder: PlainFolder, name: str, data: bytes) -> bool:
    """Whether the file is there with this content: a tile never changes."""
    status = folder.check_file(name)
    return (
        status is not None and status.st_size == len(data) and folder.read(name, len(data)) == data
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """The log after it was extended: its tiles are durable. ``previous`` is the checkpoint that it
    had, with its note. ``seq`` is the last record."""

    log: TiledLog
    previous: Checkpoint | None
    note: Note | None
    seq: int
    root: bytes
    full: tuple[Tile, ...]
    """Tiles that became full, so that partial ones are not needed any more."""

    @property
    def added(self) -> int:
        return self.log.size - (0 if self.previous is None else self.previous.size)


def extend(
    folder: LogFolder,
    source: Source,
    world: Hash,
    public_key: bytes,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> Extended:
    """Write the tiles of all durable frames. The caller holds the lock of ``folder``.

    With ``rebuild``, or if tiles are missing or altered, all tiles are written again.

    Raises:
        Damage: The journal does not continue the log's checkpoint, or does not end as its head
            says. No tile was written.
        Pruned: Frames are needed that were pruned.
    """
    head = source.head()
    if head.world != world or not head.is_signed_by(public_key):
        raise Damage(f"the head at record {head.seq} is not signed by the world's key (aos verify)")
    stored = folder.checkpoint()
    previous = note = None
    if stored is not None:
        previous, note = open_checkpoint(stored, log_key(world, public_key))
        if previous.size > head.frames:
            raise _rolled_back(previous.size, head)
        if previous.size == 0:
            previous = note = None
    old = None if previous is None or rebuild else _intact(folder, previous, source)
    full: list[Tile] = []

    def put(tile: Tile, data: bytes) -> None:
        folder.put_tile(tile, data)
        if tile.is_full:
            full.append(tile)

    if old is None:
        if previous is not None:
            _check_prefix(source, head, previous)
        growth, last = Growth(put), None
    else:
        growth, last = Growth(put, old), read_header(old.header(old.size - 1))
    for frame in _following(source, head, last):
        growth.add(header_bytes(frame.header), leaf_hash(header_bytes(frame.header)))
        if progress is not None:
            progress(frame.header.last, head.seq)
    _check_size(growth.size, head)
    growth.finish()
    folder.sync()
    log = TiledLog(growth.size, folder.read_tile)
    return Extended(
        log=log, previous=previous, note=note, seq=head.seq, root=root(log.size, log.node),
        full=tuple(full),
    )  # fmt: skip


def _intact(folder: LogFolder, checkpoint: Checkpoint, source: Source) -> TiledLog | None:
    """The log of the checkpoint; None if its last tiles are damaged, so that it must be rebuilt.

    Raises:
        Damage: The journal has another frame at its end.
    """
    log = TiledLog(checkpoint.size, folder.read_tile)
    try:
        is_whole = root(log.size, log.node) == checkpoint.root
        last = log.header(log.size - 1)
        for index, header in enumerate(log.headers(entries_tile(log.size - 1, log.size))):
            first = (log.size - 1) // WIDTH * WIDTH
            is_whole = is_whole and log.node(0, first + index) == leaf_hash(header)
        Growth(_put_nothing, log)  # the last tiles can be continued
    except DamagedTile:
        return None
    if not is_whole:
        return None
    if _same_frame(read_header(last), source):
        return log
    raise _rewritten(checkpoint)


def _put_nothing(_: Tile, __: bytes) -> None:
    raise AssertionError("nothing is written")


def _same_frame(header: Header, source: Source) -> bool:
    """Whether the journal has this very frame. Its header commits to all frames before it."""
    cut = source.cut()
    if cut is not None and header.last == cut.seq:
        return header.hash() == cut.frame
    if header.last > source.head().seq:
        return False
    return source.frame_at(header.first).header == header


def _check_prefix(source: Source, head: Head, checkpoint: Checkpoint) -> None:
    """Check that the frames give the root of ``checkpoint``, without writing anything."""
    peaks: list[tuple[int, bytes]] = []
    for number, frame in enumerate(_following(source, head, None), 1):
        peak = (0, leaf_hash(header_bytes(frame.header)))
        while peaks and peaks[-1][0] == peak[0]:
            height, left_hash = peaks.pop()
            peak = (height + 1, node_hash(left_hash, peak[1]))
        peaks.append(peak)
        if number == checkpoint.size:
            break
    result = peaks.pop()[1]
    while peaks:
        result = node_hash(peaks.pop()[1], result)
    if result != checkpoint.root:
        raise _rewritten(checkpoint)


def _following(source: Source, head: Head, last: Header | None) -> Iterator[Frame]:
    """The frames after the one with the header ``last``, each checked to follow by its header.

    Raises:
        Damage: One does not follow, or the last is not the one of the head.
    """
    seq, prev = (0, NO_FRAME) if last is None else (last.last, last.hash())
    begins = source.begins()[0]
    if seq < begins:
        raise Pruned(
            "frames that the header log needs were pruned",
            expected=f"the frames from record {seq + 1} on",
            actual=f"those after record {begins}",
            hint="name the archives that hold them: --archive FILE, once for each",
        )
    if seq < head.seq:
        for frame in source.frames(seq + 1, head.seq):
            header = frame.header
            if (header.first, header.prev) != (seq + 1, prev):
                raise Damage(f"frame {seq + 1} does not follow the frame before it (aos verify)")
            yield frame
            seq, prev = header.last, frame.hash
    if (seq, prev) != (head.seq, head.frame):
        raise Damage("the journal does not end as its head says (aos verify)")


def _check_size(size: int, head: Head) -> None:
    if size != head.frames:
        raise Damage(
            "the journal has not as many frames as its head says",
            expected=str(head.frames),
            actual=str(size),
            hint="run aos verify for details",
        )


def _rolled_back(size: int, head: Head) -> Damage:
    return Damage(
        "the journal is shorter than its own checkpoint: it was rolled back or truncated",
        expected=f"at least {size} frames",
        actual=f"{head.frames}, to record {head.seq}",
        hint="restore the newer journal; nothing was signed",
    )


def _rewritten(checkpoint: Checkpoint) -> Damage:
    return Damage(
        "the journal does not continue its own checkpoint: its history was rewritten",
        expected=f"the frames of the checkpoint, {checkpoint.size} of them",
        actual="other frames",
        hint="aos verify --checkpoint DIR/log/checkpoint --log DIR/log names the first; "
        "nothing was signed",
    )
