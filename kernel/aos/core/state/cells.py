"""Keep the cells of a world in four layers, few of them in memory (spec/state.md, SN-10).

    active   cells with mail, open intents, a fault or a place in the ring: always in memory
    resting  cells that came to rest or were read most recently: in memory, bounded per workflow
    delta    other cells that changed since the snapshot: packed entries, and tombstones
    base     all other cells: the workflow's index in the last snapshot, in the blob store

A read searches the layers from top to bottom; the first one that has the cell, or has it as
deleted, decides. The layer of a cell changes no result: the same records give the same cells and
the same roots, whatever the bounds are.

A cell is *dirty* if a record after the snapshot's changed it, otherwise *clean* (SN-11).
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Ref
from aos.core.journal.vocabulary import TerminalStatus
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import Cell
from aos.core.state.cell_index import CellIndex
from aos.core.state.entry import Entry, entry_of, entry_references, pack_keys
from aos.core.state.spilling import Spilling
from aos.errors import Damage
from aos.values.digests import Hash, content_hash

RESTING_MAX: Final = 4096
"""Default number of cells in the resting layer of one workflow; the host sets it by ``keep``."""

TIDIED: Final = 8
"""Packed cells that ``tidy`` checks whenever a cell comes to rest after a rebase."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A cell of a delta: its entry, and the blobs of the entry that no store has yet."""

    changed: int
    """The last record that changed the cell."""

    entry: Entry | None
    """None for a tombstone: the cell was deleted, although the base may still have it."""

    state: bytes | None = None
    """The bytes of the state; None if the state is in the blob store or was spilled."""

    keys: bytes | None = None
    """The bytes of the idempotency keys; None if there are none or they were spilled."""

    @property
    def size(self) -> int:
        """Bytes that spilling this cell frees; 0 if nothing is left to spill."""
        return len(self.state or b"") + len(self.keys or b"")


@dataclass(slots=True, eq=False)
class Shelf:
    """The layers of one workflow, except its active cells, which are in ``Cells.active``."""

    base: CellIndex
    """The workflow's index in the last snapshot, or the one that a later migration made."""

    resting: OrderedDict[CellId, Cell] = field(default_factory=OrderedDict)
    """Cells at rest, decoded, in the order in which they entered this layer and leave it."""

    delta: MutableMapping[CellId, Packed] = field(default_factory=OrderedDict)
    """Packed cells and tombstones. A rebase makes some of them clean; ``tidy`` drops those."""

    count: int = 0
    """Number of cells in all four layers; tombstones do not count."""

    declared: Counter[str] = field(default_factory=Counter)
    """Number of cells by the terminal status that their module declared last."""

    since: int = 0
    """The record of the migration that made the base; 0 if no migration made it."""

    @property
    def undeclared(self) -> int:
        """Number of cells whose module declares no terminal status."""
        return self.count - self.declared.total()


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"a world without a snapshot has nothing to read: {hash.hex()}")


class Cells:
    """A mapping of (workflow, key) to cell, over the four layers of all workflows.

    To change a cell, the fold calls ``wake``, changes it, then calls ``put_to_rest``. A cell moves
    between memory and disk in this order:

    1. ``put_to_rest`` moves an idle cell to the resting layer. If that is full, the oldest cell
       leaves it: a clean one is forgotten, because the base has it; a dirty one is packed into the
       delta, with the bytes of its state and keys.
    2. ``Kernel.seal`` calls ``spill`` once per frame. If the deltas are too large, ``spill`` moves
       bytes of the oldest packed cells into the frame's blobs, and pins them. From then on, the
       cell is read by ``read``, which must find a blob of a sealed frame before it is durable.
    3. The host commits the blobs in the transaction of the frame. Until the next snapshot, nothing
       else of this object is written: after a crash, the next process loads the last snapshot and
       folds the records after it, which gives the same cells.
    4. A snapshot writes the blobs and nodes of all dirty cells (``indexed``). The host makes them
       durable before it submits the record that names the snapshot.
    5. When that record is durable, too, the host calls ``rebase``: the snapshot's indexes become
       the base, and the pins that it names are dropped. If that happened earlier, no durable record
       would name these blobs, and the collector of unused blobs could remove them.
    6. ``tidy`` drops the packed cells that the new base has, a few at a time.

    Not thread-safe.
    """

    __slots__ = (
        "_read",
        "_resting_max",
        "_stale",
        "active",
        "at",
        "remembers_deleted",
        "shelves",
        "spilling",
    )

    def __init__(
        self, read: BlobReader = _no_blobs, *, at: int = 0, limits: Limits = LIMITS
    ) -> None:
        self.active: dict[CellId, Cell] = {}
        """The active layer of all workflows: never packed, so it has no bound here."""
        self.shelves: dict[str, Shelf] = {}
        """The other three layers, by workflow. A shelf stays when its last cell is deleted."""
        self.at = at
        """The record that the base was taken after; a cell with a later ``changed`` is dirty."""
        self.spilling = Spilling(limits)
        """Which packed cells leave memory, and the pins of those that have left it."""
        self.remembers_deleted = False
        """Whether a rebase may come although nothing is spilled, as for a reader that follows a
        world. Else deleted cells that the base never had are forgotten."""
        self._read = read
        """Reads index nodes, states and keys: durable ones, and those of frames on their way."""
        self._resting_max = RESTING_MAX
        """Bound of the resting layer of each workflow, in cells."""
        self._stale: list[tuple[Shelf, Iterator[CellId]]] = []
        """Packed cells that ``tidy`` has still to check since a rebase, by shelf."""

    def keep(self, resting_max: int) -> None:
        """Bound the resting layer of each workflow to ``resting_max`` cells, but at least one.

        The next cells that come to rest apply the new bound.
        """
        self._resting_max = max(resting_max, 1)

    def read_with(self, read: BlobReader) -> None:
        """Read all blobs with ``read`` from now on.

        The kernel passes a reader that also finds blobs that are not durable: spilled ones, and the
        parts of snapshots that a replay takes itself.
        """
        self._read = read
        for shelf in self.shelves.values():
            shelf.base = CellIndex(shelf.base.root, shelf.base.count, read)

    # Reading

    def get(self, id: CellId) -> Cell | None:
        """Return a cell, or None if there is none. A cell at rest moves to the resting layer.

        Raises:
            Damage: The index or an entry in it cannot be read. Nothing has changed.
        """
        cell = self.active.get(id)
        if cell is not None:
            return cell
        shelf = self.shelves.get(id[0])
        return None if shelf is None else self._at_rest(shelf, id)

    def __getitem__(self, id: CellId) -> Cell:
        cell = self.active.get(id) or self.get(id)
        if cell is None:
            raise KeyError(id)
        return cell

    def __contains__(self, id: CellId) -> bool:
        return self.get(id) is not None

    def __len__(self) -> int:
        return sum(shelf.count for shelf in self.shelves.values())

    def __iter__(self) -> Iterator[CellId]:
        for cell in self.values():
            yield cell.id

    def items(self) -> Iterator[tuple[CellId, Cell]]:
        for cell in self.values():
            yield cell.id, cell

    def values(self) -> Iterator[Cell]:
        """All cells, by workflow and then by the hash of the key. Packed cells and cells of the
        base are decoded one by one and not kept.

        Raises:
            Damage: An index or an entry cannot be read.
        """
        for workflow in sorted(self.shelves):
            yield from self.of(workflow)

    def statuses(self, workflow: str) -> Counter[str]:
        """Number of cells of a workflow by status. Reads no cell at rest."""
        counts: Counter[str] = Counter()
        shelf = self.shelves.get(workflow)
        if shelf is None:
            return counts
        counts += shelf.declared
        counts["running"] = shelf.undeclared
        for cell in self.active.values():
            if cell.id[0] == workflow:
                counts[cell.declared or "running"] -= 1
                counts[cell.status] += 1
        return counts

    def of(self, workflow: str, after_hash: Hash | None = None) -> Iterator[Cell]:
        """The cells of one workflow in the order of their key hashes, which are greater than
        ``after_hash``. Raises as ``values``."""
        shelf = self.shelves.get(workflow)
        if shelf is None:
            return
        above: dict[Hash, Cell | Packed] = {}
        for id, packed in shelf.delta.items():
            above[content_hash(id[1])] = packed
        for id, cell in shelf.resting.items():
            above[content_hash(id[1])] = cell
        for id, cell in self.active.items():
            if id[0] == workflow:
                above[content_hash(id[1])] = cell
        key_hashes = sorted(hash for hash in above if after_hash is None or hash > after_hash)
        for hash, data in heapq.merge(
            [(key_hash, b"") for key_hash in key_hashes], _base_entries(shelf, after_hash, above)
        ):
            cell_or_packed = above.get(hash)
            if isinstance(cell_or_packed, Cell):
                yield cell_or_packed
            elif cell_or_packed is None:
                yield self._cell(workflow, Entry(data))
            elif cell_or_packed.entry is not None:
                yield self._cell(workflow, cell_or_packed.entry, cell_or_packed)

    def changed(self, workflow: str, since: int) -> Iterator[Cell]:
        """The cells of one workflow that a record after ``since`` changed, in the order of their
        key hashes.

        ``since`` must not be before ``at``, so that all these cells are above the base.
        """
        assert since >= self.at, f"cells since record {since}, and the base is of {self.at}"
        shelf = self.shelf(workflow)
        above: dict[Hash, Cell | Packed] = {}
        for id, packed in shelf.delta.items():
            if packed.changed > since and packed.entry is not None:
                above[content_hash(id[1])] = packed
        for id, cell in (*shelf.resting.items(), *self.active.items()):
            if id[0] == workflow and cell.changed > since:
                above[content_hash(id[1])] = cell
        for _, changed in sorted(above.items()):
            if isinstance(changed, Cell):
                yield changed
            elif changed.entry is not None:
                yield self._cell(workflow, changed.entry, changed)

    def naming(self, blob: Hash) -> Iterator[Cell]:
        """The cells whose state or keys are this blob. Reads every leaf of every index."""
        for cell in self.active.values():
            if blob in entry_references(cell):
                yield cell
        for workflow, shelf in self.shelves.items():
            for cell in shelf.resting.values():
                if blob in entry_references(cell):
                    yield cell
            for packed in shelf.delta.values():
                if packed.entry is not None and blob in packed.entry.references():
                    yield self._cell(workflow, packed.entry, packed)
            for _, entries in shelf.base.leaves():
                for data in entries:
                    # Most entries hold these bytes nowhere: they are not decoded.
                    if data.find(blob) >= 0 and blob in Entry(data).references():
                        cell = self._cell(workflow, Entry(data))
                        if not self.is_above(cell.id):
                            yield cell

    def is_above(self, id: CellId) -> bool:
        """Whether a cell is in a layer above the base. Reads no cell."""
        shelf = self.shelves.get(id[0])
        return id in self.active or (
            shelf is not None and (id in shelf.resting or id in shelf.delta)
        )

    def _at_rest(self, shelf: Shelf, id: CellId) -> Cell | None:
        cell = shelf.resting.get(id)
        if cell is not None:
            return cell
        packed = shelf.delta.get(id)
        if packed is not None:
            if packed.entry is None:
                return None
            cell = self._cell(id[0], packed.entry, packed)
            self._drop_packed(shelf, id)
        else:
            data = shelf.base.get(content_hash(id[1]))
            if data is None:
                return None
            cell = self._cell(id[0], Entry(data))
        shelf.resting[id] = cell
        # If states are spilled, only ``put_to_rest`` packs: a read must not add to the blobs of a
        # frame.
        if not self.spilling.is_on:
            self._bound(shelf)
        return cell

    def _cell(self, workflow: str, entry: Entry, packed: Packed | None = None) -> Cell:
        cell = entry.to_cell(workflow, self._read, keys=packed.keys if packed else None)
        if packed is not None:
            cell.changed = packed.changed
            if packed.state is not None:
                cell.state = packed.state
        return cell

    # Writing

    def shelf(self, workflow: str) -> Shelf:
        """Return the shelf of a workflow; an empty one is added if there is none."""
        shelf = self.shelves.get(workflow)
        if shelf is None:
            shelf = Shelf(CellIndex(None, 0, self._read))
            self.shelves[workflow] = shelf
        return shelf

    def add(self, cell: Cell) -> None:
        """Add a new cell to the active layer. There must be no cell with this id."""
        shelf = self.shelf(cell.id[0])
        shelf.count += 1
        self._drop_packed(shelf, cell.id)
        self.active[cell.id] = cell

    def wake(self, cell: Cell, seq: int) -> None:
        """Begin a change of ``cell`` by record ``seq``: mark it dirty and move it to the active
        layer. Call ``put_to_rest`` after the change."""
        cell.changed = seq
        if cell.id not in self.active:
            shelf = self.shelves[cell.id[0]]
            shelf.resting.pop(cell.id, None)
            self._drop_packed(shelf, cell.id)
            self.active[cell.id] = cell

    def declare(self, cell: Cell, status: TerminalStatus | None) -> None:
        """Set the terminal status that the module declares for ``cell``; None withdraws it."""
        if cell.declared == status:
            return
        declared = self.shelves[cell.id[0]].declared
        if cell.declared is not None:
            declared[cell.declared] -= 1
        if status is not None:
            declared[status] += 1
        cell.declared = status

    def put_to_rest(self, cell: Cell) -> None:
        """End a change of ``cell``. A cell that has work stays active. An idle one moves to the
        resting layer or, if it has no state, is deleted."""
        if not cell.is_at_rest or self.active.pop(cell.id, None) is None:
            return
        shelf = self.shelves[cell.id[0]]
        if cell.state is None:
            self._remove(shelf, cell)
            return
        shelf.resting[cell.id] = cell
        self._bound(shelf)
        if self._stale:
            self.tidy(TIDIED)

    def _bound(self, shelf: Shelf) -> None:
        while len(shelf.resting) > self._resting_max:
            self._pack_oldest(shelf)

    def _remove(self, shelf: Shelf, cell: Cell) -> None:
        shelf.count -= 1
        if cell.declared is not None:
            shelf.declared[cell.declared] -= 1
        # The base may still have the cell, or a snapshot in progress may bring it back.
        if self.spilling.is_on or self.remembers_deleted or shelf.base.count:
            shelf.delta[cell.id] = Packed(cell.changed, None)

    def _pack_oldest(self, shelf: Shelf) -> None:
        id, cell = shelf.resting.popitem(last=False)
        if cell.changed <= self.at:
            return
        state = cell.state if isinstance(cell.state, bytes) else None
        packed = Packed(cell.changed, entry_of(cell), state, pack_keys(cell.keys))
        shelf.delta[id] = packed
        self.spilling.add(id, packed.size)

    def _drop_packed(self, shelf: Shelf, id: CellId) -> None:
        if shelf.delta.pop(id, None) is not None:
            self.spilling.drop(id)

    def spill(self) -> dict[Hash, bytes]:
        """Move states and keys out of memory and return them, for the frame that is being sealed
        (SN-11a).

        Call it once per frame and commit the result in the frame's transaction: this object reads
        these blobs from now on. Spilling begins when the deltas hold more than
        ``Limits.delta_bytes`` and continues, frame by frame, until half of that is left. The cells
        stay dirty, and their entries stay in memory.
        """
        blobs: dict[Hash, bytes] = {}
        for id in self.spilling.take():
            delta = self.shelves[id[0]].delta
            packed = delta.pop(id)
            if packed.changed > self.at:  # else the base has it
                delta[id] = Packed(packed.changed, packed.entry)
                self._pin(packed, blobs)
        return blobs

    def _pin(self, packed: Packed, blobs: dict[Hash, bytes]) -> None:
        for data in (packed.state, packed.keys):
            if data is not None:
                hash = content_hash(data)
                blobs[hash] = data
                self.spilling.pins.add(hash, packed.changed)

    # Migrations

    def replace(self, workflow: str, root: Hash, count: int, *, seq: int, read: BlobReader) -> None:
        """Replace the cells of a workflow by those that the migration of record ``seq`` made.

        The index of ``count`` entries under ``root`` becomes the base. Active cells stay active and
        get their new states; the resting layer and the delta become empty. ``read`` is used only if
        no reader was set before.

        Raises:
            Damage: The index cannot be read, or does not have exactly these cells. The cells may
                be half changed and must not be used.
        """
        shelf = self.shelf(workflow)
        if self._read is _no_blobs:
            self._read = read
        index = CellIndex(root, count, self._read)
        active = [cell for cell in self.active.values() if cell.id[0] == workflow]
        if count != shelf.count - sum(cell.state is None for cell in active):
            raise Damage(
                f"record {seq} migrates {count} cells of {workflow}, where there are {shelf.count}"
            )
        for cell in active:
            if cell.state is not None:
                self._replace(cell, index, seq)
        shelf.base, shelf.since = index, seq
        shelf.resting.clear()
        for id in list(shelf.delta):
            self._drop_packed(shelf, id)

    def _replace(self, cell: Cell, index: CellIndex, seq: int) -> None:
        data = index.get(content_hash(cell.id[1]))
        if data is None:
            raise Damage(f"record {seq} migrates {cell.id[0]} and leaves out a cell of it")
        migrated = Entry(data).to_cell(cell.id[0], self._read)
        cell.state = migrated.state
        cell.workflow_hash, cell.module_hash = migrated.workflow_hash, migrated.module_hash
        cell.version, cell.is_kept = 0, False
        cell.changed = seq

    # Snapshots

    def indexed(self, put: Callable[[bytes], Hash]) -> dict[str, CellIndex]:
        """Build the index of each workflow with all changes since the base, for a snapshot.

        ``put`` receives the states, keys and nodes that the base does not have, and returns their
        content hashes; spilled blobs are stored already and not put again. Changes no layer: see
        ``rebase``.

        Raises:
            Damage: A node of a base cannot be read.
        """
        return {name: self._indexed(name, put) for name in sorted(self.shelves)}

    def _indexed(self, workflow: str, put: Callable[[bytes], Hash]) -> CellIndex:
        shelf = self.shelves[workflow]
        changes: dict[Hash, bytes | None] = {}
        for id, packed in shelf.delta.items():
            if packed.changed > self.at:
                for data in (packed.state, packed.keys):
                    if data is not None:
                        put(data)
                changes[content_hash(id[1])] = None if packed.entry is None else packed.entry.data
        dirty = [cell for cell in shelf.resting.values() if cell.changed > self.at]
        dirty += [
            cell
            for cell in self.active.values()
            if cell.id[0] == workflow and cell.changed > self.at
        ]
        for cell in dirty:
            changes[content_hash(cell.id[1])] = _stored(cell, put)
        return shelf.base.updated(changes, put) if changes else shelf.base

    def rebase(self, indexes: Mapping[str, CellIndex], at: int) -> None:
        """Make the indexes of a snapshot taken after record ``at`` the base (SN-13).

        Everything that the snapshot names must be durable. Changes after ``at`` stay in the layers
        above. The cells that became clean leave the delta later, in ``tidy``: removing all of them
        together would stop the world for too long. No read returns another result than before.
        """
        self.at = at
        self.spilling.pins.drop(at)
        for name, index in indexes.items():
            if self.shelf(name).since <= at:
                self.shelf(name).base = index
        for name, shelf in self.shelves.items():
            # A migration after the snapshot has replaced every cell: the snapshot has old states.
            if shelf.since > at:
                continue
            if name not in indexes:
                shelf.base = CellIndex(None, 0, self._read)
            if shelf.delta:
                self._stale.append((shelf, iter(tuple(shelf.delta))))

    def tidy(self, limit: int | None = None) -> None:
        """Drop packed cells that are clean, because the base has them. Check ``limit`` cells at
        most, or all of them if it is None."""
        while self._stale:
            shelf, ids = self._stale[-1]
            checked_count = 0
            for id in islice(ids, limit):
                checked_count += 1
                packed = shelf.delta.get(id)
                if packed is not None and packed.changed <= self.at:
                    self._drop_packed(shelf, id)
            if checked_count != limit:
                self._stale.pop()
            if limit is not None:
                return


def _base_entries(
    shelf: Shelf, after_hash: Hash | None, above: Mapping[Hash, Cell | Packed]
) -> Iterator[tuple[Hash, bytes]]:
    """The entries of the base that no layer above has."""
    for hash, data in shelf.base.items(after_hash):
        if hash not in above:
            yield hash, data


def _stored(cell: Cell, put: Callable[[bytes], Hash]) -> bytes | None:
    """Put the state and the keys of a cell and return its entry; None if it has no state."""
    if cell.state is None:
        return None
    if not isinstance(cell.state, Ref):
        put(cell.state)
    keys = pack_keys(cell.keys)
    if keys is not None:
        put(keys)
    return entry_of(cell).data
