"""Compare a journal with checkpoints that were kept elsewhere (spec/proofs.md, PF-95 to PF-99).

The chain alone cannot show that its end was cut off, or that the owner of the world's key wrote all
of it again (J-32). A checkpoint from outside can.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aos.audit.headerlog.checkpoint import (
    Checkpoint,
    log_key,
    open_checkpoint,
    parse_checkpoint,
)
from aos.audit.headerlog.header_tree import EMPTY, leaf_hash, node_hash, root
from aos.audit.headerlog.signed_note import NOTE_BYTES_MAX, parse_note
from aos.audit.headerlog.stored_log import StoredLog
from aos.audit.headerlog.tiles import TiledLog
from aos.audit.proofs.header import header_bytes, read_header
from aos.audit.verify.findings import FindingKind
from aos.core.journal.frame import NO_FRAME, Frame, Header
from aos.core.journal.identity import world_id
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis
from aos.errors import BadUsage, Damage, sentence
from aos.store.cut import Cut
from aos.store.plain_files import open_named
from aos.values.digests import Hash

Problem = tuple[FindingKind, str]


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint that was kept outside of the world: its file's name, and its bytes."""

    name: str
    data: bytes


@dataclass(slots=True)
class _Wanted:
    """One checkpoint to compare. ``found`` is None if the bytes are none."""

    kept: KeptCheckpoint
    found: Checkpoint | None
    problem: str = ""


@dataclass(slots=True)
class _World:
    """A world whose frames came by: its key, and how many frames a checkpoint of it may cover."""

    key: bytes
    end: int | None = None


class CheckpointCheck:
    """One pass over the headers of a journal, as ``Verifier`` takes its frames.

    ``other`` is the log of the other side, whose tiles name the first frame that differs.
    """

    def __init__(self, kept: Sequence[KeptCheckpoint], other: TiledLog | None = None) -> None:
        self._wanted = [_read(each) for each in kept]
        self._sizes = {each.found.size for each in self._wanted if each.found is not None}
        self._roots: dict[int, bytes] = {0: EMPTY}
        self._peaks: list[tuple[int, bytes]] = []
        self._size = 0
        self._last: Header | None = None
        self._worlds: dict[Hash, _World] = {}
        self._is_lost = False
        self._other = other
        self._differs: tuple[int, int] | None = None
        self._other_problem: str | None = None

    def begin(self, cut: Cut, genesis: Genesis | Fork, headers: Iterable[bytes] | None) -> None:
        """Begin after ``cut`` with the headers before it, of the world's own log; None: there is
        none, and nothing can be compared."""
        self._worlds[world_id(genesis.nonce, genesis.world_key)] = _World(genesis.world_key)
        try:
            for data in headers or ():
                self._add(read_header(data), data)
                if self._size == cut.log.size:
                    break
        except Damage:
            self.lose()
        if self._last is None or self._last.hash() != cut.frame:
            self.lose()

    def take(self, frame: Frame) -> None:
        """Take the next frame."""
        known = self._last.world if self._last is not None else None
        if frame.header.world != known:
            self._enter(frame)
        self._add(frame.header, header_bytes(frame.header))

    def lose(self) -> None:
        """A frame cannot be read: later checkpoints cannot be compared."""
        self._is_lost = True

    def problems(self) -> Iterator[Problem]:
        """Compare, once all frames were taken."""
        for each in self._wanted:
            problem = self._problem(each)
            if problem is not None:
                yield problem[0], f"{each.kept.name}: {problem[1]}"
        if self._other_problem is not None:
            yield FindingKind.CHECKPOINT_WRONG, self._other_problem

    def _enter(self, frame: Frame) -> None:
        """Note the world that a frame begins, and the end of the one before it."""
        try:
            first = from_bytes(frame.records[0])
        except Damage:
            return
        if not isinstance(first, Genesis | Fork):
            return
        if isinstance(first, Fork) and first.parent in self._worlds:
            # Of a frame that the fork cut, the parent has another version.
            self._worlds[first.parent].end = self._size - (first.cut is not None)
        self._worlds.setdefault(world_id(first.nonce, first.world_key), _World(first.world_key))

    def _add(self, header: Header, data: bytes) -> None:
        prev = NO_FRAME if self._last is None else self._last.hash()
        if header.prev != prev:
            self.lose()
        self._last = header
        if self._is_lost:
            return
        leaf = leaf_hash(data)
        self._compare(leaf, header)
        self._size += 1
        found = (0, leaf)
        while self._peaks and self._peaks[-1][0] == found[0]:
            height, left = self._peaks.pop()
            found = (height + 1, node_hash(left, found[1]))
        self._peaks.append(found)
        if self._size in self._sizes:
            self._roots[self._size] = self._root()

    def _compare(self, leaf: bytes, header: Header) -> None:
        """Compare a leaf with that of the other side."""
        other = self._other
        if other is None or self._size >= other.size or self._differs is not None:
            return
        try:
            if other.node(0, self._size) != leaf:
                self._differs = (self._size, header.first)
        except Damage as problem:
            self._other, self._other_problem = None, str(problem)

    def _root(self) -> bytes:
        *left, (_, found) = self._peaks
        for _, peak in reversed(left):
            found = node_hash(peak, found)
        return found

    def _problem(self, wanted: _Wanted) -> Problem | None:
        if wanted.found is None:
            return FindingKind.CHECKPOINT_WRONG, wanted.problem
        checkpoint = wanted.found
        world = None if checkpoint.world is None else self._worlds.get(checkpoint.world)
        if world is None:
            return FindingKind.CHECKPOINT_WRONG, sentence(
                "it is of another log", expected="one of this world", found=checkpoint.origin[:80]
            )
        assert checkpoint.world is not None
        try:
            open_checkpoint(wanted.kept.data, log_key(checkpoint.world, world.key))
        except Damage as problem:
            return FindingKind.CHECKPOINT_WRONG, str(problem)
        if world.end is not None and checkpoint.size > world.end:
            return FindingKind.CHECKPOINT_WRONG, sentence(
                "it goes beyond the fork, where the journals part, and cannot be compared",
                expected=f"at most {world.end} frames",
                found=f"{checkpoint.size}",
                hint="name an older one of the parent",
            )
        if self._is_lost and checkpoint.size not in self._roots:
            return FindingKind.CHECKPOINT_WRONG, (
                "it cannot be compared, because frames before it are pruned, missing or unreadable "
                "(of a pruned journal, name the archives: --archive FILE)"
            )
        if checkpoint.size > self._size:
            return FindingKind.JOURNAL_TRUNCATED, sentence(
                "frames are missing at the journal's end: it was cut off, or rolled back",
                expected=f"at least {checkpoint.size} frames",
                found=f"{self._size}",
                hint="restore the newer journal",
            )
        if self._roots[checkpoint.size] == checkpoint.root:
            return None
        return FindingKind.JOURNAL_REWRITTEN, sentence(
            "the journal has other frames than those that were signed",
            expected=f"the root of {checkpoint.size} frames that the checkpoint names",
            found=self._first(checkpoint),
        )

    def _first(self, checkpoint: Checkpoint) -> str:
        """Name the first frame that differs, if the other side's tiles do."""
        if self._other is None:
            return "another (--log DIR, with the tiles of the other side, names the first frame)"
        try:
            is_its = root(checkpoint.size, self._other.node) == checkpoint.root
        except (Damage, IndexError):
            is_its = False
        if not is_its or self._differs is None:
            return "another, and the tiles that --log names are not those of the checkpoint"
        return f"another: the first is frame {self._differs[0]}, from record {self._differs[1]} on"


def _read(kept: KeptCheckpoint) -> _Wanted:
    try:
        return _Wanted(kept, parse_checkpoint(parse_note(kept.data).text))
    except Damage as problem:
        return _Wanted(kept, None, str(problem))


@contextlib.contextmanager
def checking(files: Sequence[Path], log: Path | None) -> Iterator[CheckpointCheck | None]:
    """Read checkpoints that the user names, and open the other side's ``log``.

    Raises:
        BadUsage: A file cannot be read, or a log is named without a checkpoint.
        Unavailable: The log cannot be opened.
    """
    if log is not None and not files:
        raise BadUsage("--log goes with --checkpoint: it is the log of the checkpoint")
    if not files:
        yield None
        return
    kept = [KeptCheckpoint(str(each), _named(each)) for each in files]
    if log is None:
        yield CheckpointCheck(kept)
        return
    with StoredLog.named(log) as stored:
        yield CheckpointCheck(kept, TiledLog(_size(stored, kept), stored.read_tile))


def _size(log: StoredLog, kept: Sequence[KeptCheckpoint]) -> int:
    """The size of the other side's log: that of its own checkpoint, else the largest named one."""
    data = log.checkpoint()
    named = ([] if data is None else [KeptCheckpoint("", data)]) or kept
    sizes = [each.found.size for each in map(_read, named) if each.found is not None]
    return max(sizes, default=0)


def _named(file: Path) -> bytes:
    try:
        with os.fdopen(open_named(file), "rb") as opened:
            return opened.read(NOTE_BYTES_MAX + 1)
    except OSError as problem:
        raise BadUsage(f"{file}: the file cannot be read: {problem.strerror}") from problem


def headers_before(log: StoredLog | None, cut: Cut) -> Iterator[bytes]:
    """The headers of pruned frames, from the world's own log, as far as it has them."""
    if log is None:
        return
    data = log.checkpoint()
    found = None if data is None else _read(KeptCheckpoint("", data)).found
    if found is None or found.size < cut.log.size:
        return
    tiles = TiledLog(found.size, log.read_tile)
    for index in range(cut.log.size):
        yield tiles.header(index)
