"""Move the records before a snapshot into an archive (spec/state.md, RT-1 to RT-9).

Rule 1: nothing is removed before the archive is on the disk, complete and under its final name.

Rule 2: if the process is killed at any point, either everything is still in the store, or running
the same command again completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from aos.core.journal.frame import Head
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import KernelReceipt, Receipt, Record, Stream, slot_bytes
from aos.core.snapshot.load import in_format_of, load, references
from aos.core.snapshot.take import take
from aos.core.state.cell import Cell
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.errors import BadUsage, Damage, Erased, Refused, Unavailable
from aos.host.checkpoints.checkpointing import extend_before_prune
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.restore import Progress, check_key
from aos.host.retention.archiving import is_archive, write_archive
from aos.manifest.effective import Effective
from aos.manifest.named import BlobReferences, is_document
from aos.store.cut import Archive, Cut
from aos.store.lmdb_store import LmdbStore
from aos.store.lock import world_locked
from aos.store.rows import FORGET_MAX, Forget, PutRow, SnapshotRow
from aos.store.store import Store, first_kept
from aos.store.stored_world import empty_state, state_of
from aos.values.digests import Hash, content_hash, hash_text

NEWEST: Final = "newest"
ARCHIVES: Final = "archives"
FRAMES_AT_ONCE: Final = 64

_RECEIPT: Final = Receipt.KIND.encode()
"""Also in the bytes of every ``kernel_receipt``."""
_STREAM: Final = Stream.KIND.encode()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRecords:
    """Records ``first`` to ``last`` are now in ``archive``; the genesis also stays in the store.

    ``was_begun``: an earlier command had begun it. ``not_compacted``: why the store's file is still
    as large as before.
    """

    world: Hash
    first: int
    last: int
    archive: Path
    frames: int
    bytes_before: int
    bytes_after: int
    was_begun: bool
    not_compacted: str | None


def prune_world(
    path: Path,
    *,
    snapshot_name: str = NEWEST,
    archive: Path | None = None,
    progress: Progress | None = None,
) -> PrunedRecords:
    """Move the records up to a snapshot of the world at ``path`` into an archive. No other process
    may run the world.

    ``snapshot_name`` is the record after which the snapshot was taken, or ``newest``; ``archive``
    is the target file, by default one in the world's folder. If it raises, nothing has changed,
    unless an earlier command had begun the pruning.

    Raises:
        BadUsage: There is no such world or snapshot.
        Refused: The file exists with another content, or the records before that snapshot are
            already pruned.
        Damage: The snapshot is not complete, or differs from the result of the records before it.
        Unavailable: Another process holds the world, or a file cannot be written.
    """
    folder = open_folder(path)
    with world_locked(path), folder.open_store() as store:
        prune = _Prune(folder, store, progress)
        begun = store.cut()
        if begun is not None and not begun.is_done:
            return prune.finish(begun, was_begun=True)
        row = _chosen_snapshot(store, snapshot_name)
        if begun is not None and row.at <= begun.seq:
            if row.at == begun.seq:
                return prune.finish(begun, was_begun=True)
            raise Refused(
                f"records 2 to {begun.seq} were pruned already: nothing is left before the "
                f"snapshot of record {row.at}"
            )
        return prune.run(row, archive)


def _chosen_snapshot(store: LmdbStore, snapshot_name: str) -> SnapshotRow:
    rows = list(store.snapshots())
    if not rows:
        raise BadUsage("--before: the world has no snapshot (make one: aos snapshot)")
    if snapshot_name == NEWEST:
        return rows[-1]
    for row in rows:
        if snapshot_name in (str(row.at), hash_text(row.document)):
            return row
    records_text = ", ".join(str(row.at) for row in rows[-10:])
    raise BadUsage(
        "--before: there is no such snapshot",
        expected=f"{NEWEST}, or the record that one was taken after: {records_text}",
        actual=snapshot_name[:80],
    )


class _Prune:
    def __init__(self, folder: WorldFolder, store: LmdbStore, progress: Progress | None) -> None:
        self._folder = folder
        self._store = store
        self._progress = progress

    def run(self, row: SnapshotRow, target: Path | None) -> PrunedRecords:
        """Do all steps from the beginning."""
        store = self._store
        first = first_kept(store)
        state = self._checked(row)
        key = self._folder.world_key()
        check_key(state.world_key, key)
        path = (target or self._default(first, row.at)).absolute()
        head = Head.of(state.tip).signed(key)
        if not path.exists():
            if target is not None:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            write_archive(self._folder, store, row, path, key, progress=self._progress)
        elif not is_archive(path, self._folder.world, first, head):
            raise Refused(
                "the file already exists with another content",
                location=str(path),
                expected=f"the archive of records {first} to {row.at}",
                hint="name another: --archive FILE",
            )
        self._keep_puts(state, first, row.at)
        extend_before_prune(self._folder, store)
        previous_cut = store.cut()
        cut = Cut(
            seq=row.at,
            frame=state.tip.frame,
            log=state.tip.log,
            document=row.document,
            genesis=self._genesis(state, previous_cut),
            archives=(
                *(() if previous_cut is None else previous_cut.archives),
                Archive(first, row.at, str(path)),
            ),
        )
        store.set_cut(cut)
        return self.finish(cut, was_begun=False)

    def finish(self, cut: Cut, *, was_begun: bool) -> PrunedRecords:
        """Remove the pruned records; it may be repeated."""
        store = self._store
        bytes_before = store.size_bytes()
        frames = 0
        while dropped := store.drop_frames(FRAMES_AT_ONCE):
            frames += dropped
        self._drop_rows(cut)
        if not cut.is_done:
            store.set_cut(replace(cut, is_done=True))
        problem = None
        try:
            store.compact()
        except Unavailable as error:
            problem = str(error)
        archive = cut.archives[-1]
        return PrunedRecords(
            world=self._folder.world,
            first=archive.first,
            last=archive.last,
            archive=Path(archive.name),
            frames=frames,
            bytes_before=bytes_before,
            bytes_after=store.size_bytes(),
            was_begun=was_begun,
            not_compacted=problem,
        )

    def _default(self, first: int, last: int) -> Path:
        """The default archive: a file in the world's folder."""
        name = f"records-{first}-{last}.aos"
        try:
            with self._folder.open_plain() as world, world.inner(ARCHIVES, make=True) as archives:
                archives.check_file(name)
                return archives.path / name
        except OSError as error:
            archives_path = self._folder.path / ARCHIVES
            raise Unavailable(
                f"{archives_path}: the folder cannot be made: {error.strerror}"
            ) from error

    def _genesis(self, state: State, previous_cut: Cut | None) -> bytes:
        """The genesis record of the world of ``state``."""
        seq = state.ancestors[-1].at + 1 if state.ancestors else 1
        if previous_cut is not None and seq <= previous_cut.seq:
            return previous_cut.genesis
        frame = self._store.frame_at(seq)
        assert frame is not None, "a journal has the record that its world began with"
        return frame.records[seq - frame.header.first]

    # Before anything is removed

    def _checked(self, row: SnapshotRow) -> State:
        """Check the snapshot and return its state.

        Raises:
            Damage: It is not complete, or differs from the result of the records before it.
        """
        store = self._store
        for hash, subject in references(row.document, store.blob):
            if not (store.has_blob(hash) or store.erased(hash)):
                raise Damage(
                    f"the snapshot of record {row.at} is not whole, and nothing was pruned: "
                    f"{subject}, {hash_text(hash)}, is missing"
                )
        refolded = self._folded(row)
        root = in_format_of(
            row.document,
            store.blob,
            lambda number: take(refolded, content_hash, format=number).document,
        )
        if root != row.document:
            raise Damage(
                f"the snapshot of record {row.at} is not of the world as it was then, and "
                "nothing was pruned",
                expected=hash_text(root),
                actual=hash_text(row.document),
                hint="run aos verify for details",
            )
        return state_of(store, row)

    def _folded(self, row: SnapshotRow) -> State:
        """The state after record ``row.at``, folded from the previous snapshot."""
        store = self._store
        previous_row = store.snapshot_before(row.at - 1)
        state = empty_state(store) if previous_row is None else state_of(store, previous_row)
        for frame in store.frames(state.tip.seq + 1, row.at):
            fold_frame(state, frame, store.blob)
            if self._progress is not None:
                self._progress(state.tip.seq, row.at)
        return state

    def _keep_puts(self, state: State, first: int, last: int) -> None:
        """Note the blobs that the records delivered to instances that are not over: they stay."""
        name_rules = named_of(state, self._store)
        terminal = _TerminalInstances(state)
        rows = (
            PutRow(blob=blob, seq=record.seq, cell=record.cell)
            for record in self._records(first, last)
            if isinstance(record, Receipt | KernelReceipt | Stream)
            and not terminal.is_so(record.cell)
            for blob in delivered_blobs(record, name_rules, self._store.blob)
            if self._store.has_blob(blob)
        )
        for some in batches(rows, FORGET_MAX):
            self._store.add_puts(some)

    def _records(self, first: int, last: int) -> Iterator[Record]:
        for frame in self._store.frames(first, last):
            for data in frame.records:
                if _RECEIPT in data or _STREAM in data:
                    yield from_bytes(data)

    # After the cut

    def _drop_rows(self, cut: Cut) -> None:
        """Remove rows that only describe pruned records."""
        store = self._store
        state = load(cut.document, store.blob)
        window = {name for name, _ in state.submissions.items()}
        self._forget(
            (
                intent
                for intent, row in store.intents()
                if row.opened_seq <= cut.seq
                and intent not in state.intents
                and intent not in state.abandoned
            ),
            lambda some: Forget(intents=some),
        )
        self._forget(
            (
                row.submission_id
                for row in store.submissions()
                if row.seq <= cut.seq and row.submission_id not in window
            ),
            lambda some: Forget(submissions=some),
        )
        self._forget(
            (row.at for row in store.snapshots() if row.at < cut.seq),
            lambda some: Forget(snapshots=some),
        )

    def _forget(self, rows: Iterable[T], forget: Callable[[list[T]], Forget]) -> None:
        for some in batches(rows, FORGET_MAX):
            self._store.forget(forget(some))


def delivered_blobs(
    record: Receipt | KernelReceipt | Stream,
    name_rules: BlobReferences,
    read: Callable[[Hash], bytes],
) -> Iterator[Hash]:
    """The blobs that a record delivers to its cell; none if its payload was erased.

    Raises:
        Damage: The payload is missing or altered.
    """
    if isinstance(record, Stream):
        if record.payload_ref is not None:
            yield record.payload_ref
        return
    schema = record.payload_schema
    if schema is None or not name_rules.has_values(schema):
        return
    try:
        payload = slot_bytes(record.payload, read)
    except Erased:
        return
    yield from name_rules.value(schema, payload)


class _TerminalInstances:
    """The instances that are over, according to a snapshot."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._is_terminal_by_cell: dict[tuple[str, bytes], bool] = {}

    def is_so(self, id: tuple[str, bytes]) -> bool:
        is_over = self._is_terminal_by_cell.get(id)
        if is_over is None:
            is_over = self._is_terminal_by_cell[id] = is_terminal(self._state.cells.get(id))
        return is_over


def is_terminal(cell: Cell | None) -> bool:
    """Whether an instance is over: it is deleted, or its module has completed it. A failed one is
    not over, because a command may resume it."""
    return cell is None or (cell.declared is not None and cell.fault is None)


def batches(rows: Iterable[T], limit: int) -> Iterator[list[T]]:
    """``rows`` in lists of at most ``limit``."""
    remaining = iter(rows)
    while some := list(islice(remaining, limit)):
        yield some


def named_of(state: State, store: Store) -> BlobReferences:
    """The rules by which values name blobs, from all manifests that the world ever had (RT-12).

    Raises:
        Damage: A manifest cannot be read.
    """
    name_rules = BlobReferences(store.hash_by_sha256)
    for manifest in manifests_of(state, store.blob):
        name_rules.add(manifest)
    return name_rules


def manifests_of(state: State, read: BlobReader) -> Iterator[Effective]:
    """All manifests that the world ever had, in no particular order."""
    for hash in sorted(state.pinned):
        data = read(hash)
        if is_document(data):
            yield Effective.from_document(data)
