"""Make a proof from a world's folder, or from a bundle (spec/proofs.md, PF-30 to PF-39)."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.core.journal.frame import Tip
from aos.core.journal.records import CellId
from aos.core.state.fold import fold_frame
from aos.core.state.state import State, empty
from aos.errors import BadUsage, Damage, Refused
from aos.host.checkpoints.attestations import is_stamp_of
from aos.host.checkpoints.named_files import read_named
from aos.host.folder.folder import open_folder
from aos.host.folder.restore import restore
from aos.host.folder.second_fold import SecondFold
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint
from aos.prove.headerlog.header_tree import root
from aos.prove.headerlog.signed_note import NOTE_BYTES_MAX
from aos.prove.headerlog.stored_log import TIMESTAMP_BYTES_MAX, StoredLog
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.anchoring import Anchoring, ByCheckpoint, ByHead, uncovered
from aos.prove.proofs.making import (
    CellSnapshot,
    MadeProof,
    Maker,
    cell_snapshot,
    prove_consistency,
)
from aos.prove.proofs.proof_file import CheckpointAnchor, WorldKey
from aos.prove.proofs.sources import Source, find_intent, intent_records
from aos.prove.proofs.trust import others_shown
from aos.read.lens.lookup import find_cell
from aos.store.bundle.reader import Bundle, open_bundle
from aos.values.digests import Hash

SINCE: Final = "since"
TIMESTAMP_SUFFIX: Final = ".tsr"
_HEX: Final = re.compile(r"(?:blake3:)?([0-9a-f]{8,64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """The target of a proof, and its options. ``checkpoint`` is the anchor, None for the newest one
    that covers it.

    ``may_show`` decides whether so many other keys of an index are shown too.
    """

    words: Sequence[str]
    bare: bool = False
    snapshot: bool = False
    checkpoint: Path | None = None
    may_show: Callable[[int], bool] = lambda _: True


def prove(
    world: Path, request: ProofRequest, *, bundle: Path | None = None, archives: Sequence[Path] = ()
) -> MadeProof:
    """Make a proof. The world may run meanwhile.

    Raises:
        BadUsage: There is no such world, bundle, record, intent or cell.
        Refused: The checkpoint does not cover it, or other keys may not be shown.
        Pruned: A record was pruned, and is in no archive that was named.
        Damage: The journal or its header log is damaged.
    """
    with contextlib.ExitStack() as stack:
        archive_bundles = [stack.enter_context(open_bundle(archive)) for archive in archives]
        if bundle is not None:
            source_bundle = stack.enter_context(open_bundle(bundle))
            source = Source(None, bundle=source_bundle, archives=archive_bundles)
            return _Proving(
                source, source_bundle.head().world, None, lambda: _folded(source_bundle)
            ).make(request)
        folder = open_folder(world)
        store = stack.enter_context(folder.open_store(readonly=True))
        log = stack.enter_context(StoredLog.of_world(folder.path))
        source = Source(store, archives=archive_bundles)
        second = SecondFold(outside=folder.path)
        return _Proving(
            source, folder.world, log, lambda: restore(store, folder.world, second=second)
        ).make(request)


def _folded(bundle: Bundle) -> State:
    """The state at the end of a bundle.

    Raises:
        BadUsage: It is an archive, which does not begin at the genesis.
    """
    if bundle.header.after is not None:
        raise BadUsage(f"{bundle.path}: an archive alone cannot name a cell: prove from the world")
    state = None
    for frame in bundle.frames():
        if state is None:
            state = empty(Tip(world=frame.header.world), bundle.blob)
        fold_frame(state, frame, bundle.blob)
    if state is None:
        raise Damage(f"{bundle.path}: the bundle has no frame")
    return state


class _Proving:
    """Makes one proof. ``state`` reads the world, which only a cell needs."""

    def __init__(
        self, source: Source, world: Hash, log: StoredLog | None, state: Callable[[], State]
    ) -> None:
        self._source = source
        self._world = world
        self._log = log
        self._state = state
        self._key: WorldKey | None = None

    def make(self, request: ProofRequest) -> MadeProof:
        words = request.words
        if len(words) == 2 and words[0] == SINCE:
            return self._since(Path(words[1]), request)
        if len(words) == 1:
            word = words[0]
            is_number = word.isascii() and word.isdigit() and len(word) < 20
            if is_number and 1 <= int(word) <= self._source.head().seq:
                return self._maker([int(word)], request).record(int(word))
            match = _HEX.fullmatch(word)
            if match is not None:
                return self._intent(find_intent(self._source, match[1]), request)
            if is_number:
                raise BadUsage(
                    "there is no such record",
                    location=f"record {word}",
                    expected=f"1 to {self._source.head().seq}",
                )
        if len(words) not in (1, 2):
            raise BadUsage("expected SEQ, INTENT, WORKFLOW KEY or since CHECKPOINT")
        return self._cell(words, request)

    def _intent(self, intent: Hash, request: ProofRequest) -> MadeProof:
        records = intent_records(self._source, intent, bare=request.bare)
        last = max(records.request, records.settled or 0)
        return self._maker([last], request).intent(intent, records, bare=request.bare)

    def _cell(self, words: Sequence[str], request: ProofRequest) -> MadeProof:
        state = self._state()
        cell = find_cell(state, words[0], words[1] if len(words) == 2 else None)
        stored_cell = state.cells.get(cell)
        last = None if stored_cell is None else stored_cell.last_seq or None
        if not request.snapshot:
            if last is None:
                raise BadUsage(
                    f"{cell[0]}: there is no such cell (to prove that it does not exist, "
                    "add --snapshot)"
                )
            return self._maker([last], request).cell(*cell, last)
        shot = self._shot(state, cell)
        shown_count = others_shown(shot.nodes, cell[1])
        if not request.may_show(shown_count):
            raise Refused(
                "the proof also reveals other cells: the index of a snapshot is not salted",
                actual=f"keys and the hashes of states of {shown_count} other cells",
                hint="accept this with --yes; without --snapshot no other cell is revealed",
            )
        return self._maker([shot.seq, shot.last or 0], request).cell(*cell, shot.last, shot)

    def _shot(self, state: State, cell: CellId) -> CellSnapshot:
        if state.snapshot is None:
            raise BadUsage("--snapshot: the world has no snapshot (make one: aos snapshot)")
        return cell_snapshot(self._source, state.snapshot.seq, *cell)

    def _since(self, file: Path, request: ProofRequest) -> MadeProof:
        text, old = self._read_checkpoint(file)
        stored = self._stored()
        if request.checkpoint is not None:
            stored = self._checkpoint_at(request.checkpoint)
        if stored is None:
            raise BadUsage("the world has no header log yet (make a checkpoint: aos checkpoint)")
        log, checkpoint, anchor = stored
        return prove_consistency(self._world_key(), log, (old, text), (checkpoint, anchor))

    def _maker(self, seqs: Sequence[int], request: ProofRequest) -> Maker:
        return Maker(self._source, self._world, self._anchoring(max(seqs), request.checkpoint))

    def _anchoring(self, seq: int, checkpoint_file: Path | None) -> Anchoring:
        """The anchor for records up to ``seq``: the checkpoint, else the head."""
        if checkpoint_file is not None:
            by = ByCheckpoint(*self._checkpoint_at(checkpoint_file))
            if by.last < seq:
                raise uncovered(by.last, seq)
            return by
        stored = self._stored()
        if stored is not None:
            by = ByCheckpoint(*stored)
            if by.last >= seq:
                return by
        return ByHead(self._source, self._source.head())

    def _world_key(self) -> WorldKey:
        if self._key is None:
            self._key = self._source.key_of(self._world)
        return self._key

    def _stored(self) -> tuple[TiledLog, Checkpoint, CheckpointAnchor] | None:
        """The newest checkpoint of the log in the folder."""
        if self._log is None:
            return None
        data = self._log.checkpoint()
        if data is None:
            return None
        checkpoint, note = open_checkpoint(data, log_key(self._world, self._world_key().key))
        stamp = self._log.timestamp()
        if stamp is not None and not is_stamp_of(note, stamp):
            stamp = None
        log = TiledLog(checkpoint.size, self._log.read_tile)
        return log, checkpoint, CheckpointAnchor(note=note.full_text, timestamp=stamp)

    def _checkpoint_at(self, file: Path) -> tuple[TiledLog, Checkpoint, CheckpointAnchor]:
        """A checkpoint that the user names, which the log in the folder has grown from."""
        stored = self._stored()
        if stored is None:
            raise BadUsage("the world has no header log yet (make a checkpoint: aos checkpoint)")
        text, checkpoint = self._read_checkpoint(file)
        log = stored[0]
        if not 1 <= checkpoint.size <= log.size:
            raise Refused(
                "the checkpoint is newer than the header log, or covers no frame",
                location=str(file),
                expected=f"1 to {log.size} frames",
                actual=str(checkpoint.size),
                hint="extend the log first: aos checkpoint",
            )
        if root(checkpoint.size, log.node) != checkpoint.root:
            raise Damage(
                "the header log does not continue this checkpoint",
                location=str(file),
                expected=f"the root {base64.b64encode(checkpoint.root).decode()}",
                actual="another",
                hint="run aos verify --checkpoint FILE for details",
            )
        return log, checkpoint, CheckpointAnchor(note=text, timestamp=self._stamp_of(file, text))

    def _stamp_of(self, file: Path, text: str) -> bytes | None:
        stamp = file.with_name(file.name + TIMESTAMP_SUFFIX)
        if not stamp.exists():
            return None
        data = read_named(stamp, TIMESTAMP_BYTES_MAX)
        key = log_key(self._world, self._world_key().key)
        return data if is_stamp_of(open_checkpoint(text.encode(), key)[1], data) else None

    def _read_checkpoint(self, file: Path) -> tuple[str, Checkpoint]:
        """Read a checkpoint of this world that the user names."""
        data = read_named(file, NOTE_BYTES_MAX)
        try:
            checkpoint, note = open_checkpoint(data, log_key(self._world, self._world_key().key))
        except Damage as problem:
            raise Damage(f"{file}: {problem}") from problem
        return note.full_text, checkpoint
