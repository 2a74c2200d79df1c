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

from aos.core.journal.frame import NO_FRAME, Frame, Header
from aos.core.journal.identity import world_id
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis
from aos.errors import BadUsage, Damage, sentence
from aos.prove.headerlog.checkpoint import (
    Checkpoint,
    log_key,
    open_checkpoint,
    parse_checkpoint,
)
from aos.prove.headerlog.header_tree import (
    EMPTY,
    header_bytes,
    leaf_hash,
    node_hash,
    read_header,
    root,
)
from aos.prove.headerlog.signed_note import NOTE_BYTES_MAX, parse_note
from aos.prove.headerlog.stored_log import StoredLog
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.verify.findings import FindingKind
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
class _Comparison:
    """One checkpoint to compare. ``checkpoint`` is None if the bytes are none."""

    source: KeptCheckpoint
    checkpoint: Checkpoint | None
    problem: str = ""


@dataclass(slots=True)
class _World:
    """A world whose frames came by: its key, and how many frames a checkpoint of it may cover."""

    key: bytes
    end: int | None = None


class CheckpointCheck:
    """One pass over the headers of a journal, as ``Verifier`` takes its frames.

    ``other_log`` is the log of the other side, whose tiles name the first frame that differs.
    """

    def __init__(
        self, checkpoints: Sequence[KeptCheckpoint], other_log: TiledLog | None = None
    ) -> None:
        self._comparisons = [_read(checkpoint) for checkpoint in checkpoints]
        self._sizes = {
            comparison.checkpoint.size
            for comparison in self._comparisons
            if comparison.checkpoint is not None
        }
        self._roots: dict[int, bytes] = {0: EMPTY}
        self._peaks: list[tuple[int, bytes]] = []
        self._size = 0
        self._last: Header | None = None
        self._worlds: dict[Hash, _World] = {}
        self._is_lost = False
        self._other_log = other_log
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
        world = self._last.world if self._last is not None else None
        if frame.header.world != world:
            self._enter(frame)
        self._add(frame.header, header_bytes(frame.header))

    def lose(self) -> None:
        """A frame cannot be read: later checkpoints cannot be compared."""
        self._is_lost = True

    def problems(self) -> Iterator[Problem]:
        """Compare, once all frames were taken."""
        for comparison in self._comparisons:
            problem = self._problem(comparison)
            if problem is not None:
                yield problem[0], f"{comparison.source.name}: {problem[1]}"
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
        peak = (0, leaf)
        while self._peaks and self._peaks[-1][0] == peak[0]:
            height, left_hash = self._peaks.pop()
            peak = (height + 1, node_hash(left_hash, peak[1]))
        self._peaks.append(peak)
        if self._size in self._sizes:
            self._roots[self._size] = self._root()

    def _compare(self, leaf: bytes, header: Header) -> None:
        """Compare a leaf with that of the other side."""
        other_log = self._other_log
        if other_log is None or self._size >= other_log.size or self._differs is not None:
            return
        try:
            if other_log.node(0, self._size) != leaf:
                self._differs = (self._size, header.first)
        except Damage as problem:
            self._other_log, self._other_problem = None, str(problem)

    def _root(self) -> bytes:
        *earlier_peaks, (_, root_hash) = self._peaks
        for _, peak in reversed(earlier_peaks):
            root_hash = node_hash(peak, root_hash)
        return root_hash

    def _problem(self, comparison: _Comparison) -> Problem | None:
        if comparison.checkpoint is None:
            return FindingKind.CHECKPOINT_WRONG, comparison.problem
        checkpoint = comparison.checkpoint
        world = None if checkpoint.world is None else self._worlds.get(checkpoint.world)
        if world is None:
            return FindingKind.CHECKPOINT_WRONG, sentence(
                "it is of another log", expected="one of this world", actual=checkpoint.origin[:80]
            )
        assert checkpoint.world is not None
        try:
            open_checkpoint(comparison.source.data, log_key(checkpoint.world, world.key))
        except Damage as problem:
            return FindingKind.CHECKPOINT_WRONG, str(problem)
        if world.end is not None and checkpoint.size > world.end:
            return FindingKind.CHECKPOINT_WRONG, sentence(
                "it goes beyond the fork, where the journals part, and cannot be compared",
                expected=f"at most {world.end} frames",
                actual=f"{checkpoint.size}",
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
                actual=f"{self._size}",
                hint="restore the newer journal",
            )
        if self._roots[checkpoint.size] == checkpoint.root:
            return None
        return FindingKind.JOURNAL_REWRITTEN, sentence(
            "the journal has other frames than those that were signed",
            expected=f"the root of {checkpoint.size} frames that the checkpoint names",
            actual=self._first(checkpoint),
        )

    def _first(self, checkpoint: Checkpoint) -> str:
        """Name the first frame that differs, if the other side's tiles do."""
        if self._other_log is None:
            return "another (--log DIR, with the tiles of the other side, names the first frame)"
        try:
            is_its = root(checkpoint.size, self._other_log.node) == checkpoint.root
        except (Damage, IndexError):
            is_its = False
        if not is_its or self._differs is None:
            return "another, and the tiles that --log names are not those of the checkpoint"
        return f"another: the first is frame {self._differs[0]}, from record {self._differs[1]} on"


def _read(source: KeptCheckpoint) -> _Comparison:
    try:
        return _Comparison(source, parse_checkpoint(parse_note(source.data).text))
    except Damage as problem:
        return _Comparison(source, None, str(problem))


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
    checkpoints = [KeptCheckpoint(str(file), _read_note_file(file)) for file in files]
    if log is None:
        yield CheckpointCheck(checkpoints)
        return
    with StoredLog.at_user_path(log) as stored:
        yield CheckpointCheck(checkpoints, TiledLog(_size(stored, checkpoints), stored.read_tile))


def _size(log: StoredLog, checkpoints: Sequence[KeptCheckpoint]) -> int:
    """The size of the other side's log: that of its own checkpoint, else the largest named one."""
    data = log.checkpoint()
    candidates = ([] if data is None else [KeptCheckpoint("", data)]) or checkpoints
    sizes = [
        comparison.checkpoint.size
        for comparison in map(_read, candidates)
        if comparison.checkpoint is not None
    ]
    return max(sizes, default=0)


def _read_note_file(file: Path) -> bytes:
    try:
        with os.fdopen(open_named(file), "rb") as stream:
            return stream.read(NOTE_BYTES_MAX + 1)
    except OSError as problem:
        raise BadUsage(f"{file}: the file cannot be read: {problem.strerror}") from problem


def headers_before(log: StoredLog | None, cut: Cut) -> Iterator[bytes]:
    """The headers of pruned frames, from the world's own log, as far as it has them."""
    if log is None:
        return
    data = log.checkpoint()
    checkpoint = None if data is None else _read(KeptCheckpoint("", data)).checkpoint
    if checkpoint is None or checkpoint.size < cut.log.size:
        return
    tiles = TiledLog(checkpoint.size, log.read_tile)
    for index in range(cut.log.size):
        yield tiles.header(index)
