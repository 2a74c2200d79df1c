"""Keep the cells of a world in four layers, few of them in memory (spec/state.md, SN-10).

    active   cells with mail, a fault or a place in the ring: always in memory
    resting  cells that came to rest or were read most recently: in memory, bounded per workflow
    delta    other cells that changed since the snapshot: packed entries, and tombstones
    base     all other cells: the workflow's index in the last snapshot, in the blob store

A read searches the layers from top to bottom; the first one that has the cell, or has it as
deleted, decides. The layer of a cell changes no result: the same records give the same cells and
the same roots, whatever the bounds are.

A cell that only waits for receipts rests, too, with its open intents, if the base holds open work
(SN-14); else it is active.

A cell is *dirty* if a record after the snapshot's changed it, otherwise *clean* (SN-11).
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Ref
from aos.core.journal.vocabulary import TerminalStatus
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import Cell
from aos.core.state.cell_index import CellIndex
from aos.core.state.entry import Entry, entry_of, entry_references, pack_keys
from aos.core.state.eras import ManifestOf
from aos.core.state.open_intents import OpenIntents
from aos.core.state.spilling import Spilling
from aos.core.state.work_item import (
    Work,
    cell_of_work,
    opened_entry,
    read_work,
    timer_key,
    work_item,
)
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.values.digests import Hash, content_hash

RESTING_MAX: Final = 4096
"""Default number of cells in the resting layer of one workflow; the host sets it by ``keep``."""

WAITING_FORMAT: Final = 2
"""The format of snapshots that hold the open work of cells that only wait."""

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

    work: bytes | Hash | None = None
    """The open work of a cell that waits: its bytes, or their hash once they were spilled."""

    is_spilled: bool = False
    """Whether ``work`` is a hash."""

    waits: tuple[Hash, ...] = ()
    """The open intents of the cell."""

    @property
    def blobs(self) -> tuple[bytes, ...]:
        """The bytes that leave memory when this cell is spilled."""
        work = None if self.is_spilled else self.work
        return tuple(data for data in (self.state, self.keys, work) if data is not None)

    @property
    def size(self) -> int:
        """Bytes that spilling this cell frees; 0 if nothing is left to spill."""
        return sum(map(len, self.blobs))

    def spilled(self) -> Packed:
        """The cell when its bytes are in the blob store."""
        work = self.work if self.work is None or self.is_spilled else content_hash(self.work)
        return Packed(
            self.changed, self.entry, work=work, is_spilled=work is not None, waits=self.waits
        )


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"a world without a snapshot has nothing to read: {hash.hex()}")


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

    waiting: CellIndex = field(default_factory=lambda: CellIndex(None, 0, _no_blobs))
    """The open work of cells that only waited when the last snapshot was taken."""

    ended: set[Hash] = field(default_factory=set)
    """Key hashes whose entry in ``waiting`` is older than the base, which a migration made."""

    resting_waiting: int = 0
    """Number of cells that rest while they wait."""

    undeclared_waiting: int = 0
    """Number of those whose module declares no terminal status."""

    @property
    def undeclared(self) -> int:
        """Number of cells whose module declares no terminal status."""
        return self.count - self.declared.total()


@dataclass(frozen=True, slots=True)
class WorkIndexes:
    """The open work of cells that only wait, in a snapshot (SN-15)."""

    waiting: Mapping[str, CellIndex]
    """For each workflow, the work of its cells by the hash of their key."""

    opened: Mapping[str, CellIndex]
    """For each effect, the cells of its intents by their hash."""

    timers: CellIndex
    """The intents of timers by the time at which they are due."""

    def all(self) -> Iterator[CellIndex]:
        """Each map."""
        yield from (*self.waiting.values(), *self.opened.values(), self.timers)


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
        "intents",
        "remembers_deleted",
        "rests_waiting",
        "shelves",
        "spilling",
    )

    def __init__(
        self,
        read: BlobReader = _no_blobs,
        *,
        at: int = 0,
        limits: Limits = LIMITS,
        manifest_of: ManifestOf = Effective.from_document,
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
        self.rests_waiting = limits.snapshot_format == WAITING_FORMAT
        """Whether the base holds open work, so that a cell that only waits may rest."""
        self.intents = OpenIntents(self, read, manifest_of)
        """The open intents of all cells."""
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
            shelf.waiting = CellIndex(shelf.waiting.root, shelf.waiting.count, read)
        self.intents.read_with(read)

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
        counts["running"] = shelf.undeclared - shelf.undeclared_waiting
        if shelf.undeclared_waiting:
            counts["waiting"] = shelf.undeclared_waiting
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
        works = _Ascending(shelf.waiting, after_hash, shelf.ended)
        for hash, data in heapq.merge(
            [(key_hash, b"") for key_hash in key_hashes], _base_entries(shelf, after_hash, above)
        ):
            cell_or_packed = above.get(hash)
            if isinstance(cell_or_packed, Cell):
                yield cell_or_packed
            elif cell_or_packed is None:
                yield self._waiting_cell(self._cell(workflow, Entry(data)), works.at(hash))
            elif cell_or_packed.entry is not None:
                yield self._packed_cell(workflow, cell_or_packed.entry, cell_or_packed)

    def unrested(self) -> Iterator[Cell]:
        """The cells that are not idle, by workflow and then by the hash of the key: those with
        work, a fault or open intents. Cells that are not in memory are decoded one by one."""
        active: dict[str, list[tuple[Hash, Cell]]] = {}
        for id, cell in self.active.items():
            active.setdefault(id[0], []).append((content_hash(id[1]), cell))
        for workflow in sorted(self.shelves):
            cells = active.get(workflow, [])
            if self.rests_waiting:
                yield from self._unrested(self.shelves[workflow], workflow, cells)
            else:
                yield from [cell for _, cell in sorted(cells, key=itemgetter(0))]

    def unrested_of(self, workflow: str) -> Iterator[Cell]:
        """As ``unrested``, of one workflow."""
        cells = [
            (content_hash(id[1]), cell) for id, cell in self.active.items() if id[0] == workflow
        ]
        shelf = self.shelves.get(workflow)
        return iter(()) if shelf is None else self._unrested(shelf, workflow, cells)

    def unrested_count(self, workflow: str | None) -> int:
        """The number of cells of ``unrested``, without reading them, of one workflow or of all."""
        active = [id for id in self.active if workflow in (None, id[0])]
        shelves = [shelf for name, shelf in self.shelves.items() if workflow in (None, name)]
        return len(active) + sum(shelf.resting_waiting for shelf in shelves)

    def _unrested(
        self, shelf: Shelf, workflow: str, active: list[tuple[Hash, Cell]]
    ) -> Iterator[Cell]:
        above: dict[Hash, Cell | Packed] = {
            content_hash(id[1]): packed for id, packed in shelf.delta.items() if packed.waits
        }
        for id, cell in shelf.resting.items():
            if cell.inflight:
                above[content_hash(id[1])] = cell
        above.update(active)
        # A reader may load cells of the base meanwhile.
        hidden = {cell.id for _, cell in active} | shelf.resting.keys() | shelf.delta.keys()
        base = (
            hash
            for hash, data in shelf.waiting.items()
            if hash not in shelf.ended and cell_of_work(data) not in hidden
        )
        for hash in heapq.merge(sorted(above), base):
            cell_or_packed = above.get(hash)
            if isinstance(cell_or_packed, Cell):
                yield cell_or_packed
            elif cell_or_packed is not None and cell_or_packed.entry is not None:
                yield self._packed_cell(workflow, cell_or_packed.entry, cell_or_packed)
            else:
                data = shelf.base.get(hash)
                if data is None:
                    raise Damage(f"a cell of {workflow} waits, and the snapshot does not have it")
                yield self._waiting_cell(self._cell(workflow, Entry(data)), shelf.waiting.get(hash))

    def work_at_rest(self, id: CellId) -> Work:
        """The open work of a cell that is packed or in the base; empty for any other. Loads
        nothing."""
        shelf = self.shelves.get(id[0])
        if shelf is None or id in self.active or id in shelf.resting:
            return []
        packed = shelf.delta.get(id)
        if packed is not None:
            return self._packed_work(shelf, id, packed)
        return self._base_work(shelf, content_hash(id[1]))

    def hides_base(self, id: CellId) -> bool:
        """Whether the open work of a cell in the base is not that of the world any more."""
        shelf = self.shelves.get(id[0])
        return self.is_above(id) or (shelf is not None and content_hash(id[1]) in shelf.ended)

    def _packed_work(self, shelf: Shelf, id: CellId, packed: Packed) -> Work:
        if packed.work is None:
            return []
        if packed.is_spilled and packed.changed <= self.at:
            # No pin keeps the blob any more, and the base has the same.
            return self._base_work(shelf, content_hash(id[1]))
        data = self._read(Hash(packed.work)) if packed.is_spilled else packed.work
        return read_work(data, self.intents.manifest)

    def _base_work(self, shelf: Shelf, key_hash: Hash) -> Work:
        return [] if key_hash in shelf.ended else self._stored_work(shelf, key_hash)

    def _stored_work(self, shelf: Shelf, key_hash: Hash) -> Work:
        data = shelf.waiting.get(key_hash) if shelf.waiting.count else None
        return [] if data is None else read_work(data, self.intents.manifest)

    def _waiting_cell(self, cell: Cell, work: bytes | None) -> Cell:
        """Give a copy of a cell its open intents, which are not loaded."""
        if work is not None:
            for open_intent, _ in read_work(work, self.intents.manifest):
                cell.inflight[open_intent.intent] = None
        return cell

    def _packed_cell(self, workflow: str, entry: Entry, packed: Packed) -> Cell:
        cell = self._cell(workflow, entry, packed)
        cell.inflight = dict.fromkeys(packed.waits)
        return cell

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
                yield self._packed_cell(workflow, changed.entry, changed)

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
            work = self._packed_work(shelf, id, packed)
            self._drop_packed(shelf, id)
        else:
            key_hash = content_hash(id[1])
            data = shelf.base.get(key_hash)
            if data is None:
                return None
            cell = self._cell(id[0], Entry(data))
            work = self._base_work(shelf, key_hash)
        if work:
            self.intents.load(cell, work)
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
            shelf = Shelf(CellIndex(None, 0, self._read), waiting=CellIndex(None, 0, self._read))
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
            if cell.inflight:
                if shelf.resting.get(cell.id) is not cell:  # it has left memory meanwhile
                    self.intents.load(cell, self.work_at_rest(cell.id))
                shelf.resting_waiting -= 1
                shelf.undeclared_waiting -= cell.declared is None
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
        """End a change of ``cell``. A cell that has work stays active. An idle one, and one that
        only waits, moves to the resting layer or, if it has no state, is deleted."""
        is_waiting = self.rests_waiting and self.may_wait(cell)
        if not (is_waiting or cell.is_at_rest) or self.active.pop(cell.id, None) is None:
            return
        shelf = self.shelves[cell.id[0]]
        if is_waiting:
            shelf.resting_waiting += 1
            shelf.undeclared_waiting += cell.declared is None
        if cell.state is None:
            self._remove(shelf, cell)
            return
        shelf.resting[cell.id] = cell
        self._bound(shelf)
        if self._stale:
            self.tidy(TIDIED)

    def may_wait(self, cell: Cell) -> bool:
        """Whether the cell only waits, and its open intents have neither streams nor halts: those
        change without the cell (SN-14)."""
        halts, streams = self.intents.halts, self.intents.streams
        return cell.only_waits and not (
            (halts or streams)
            and any(intent in halts or intent in streams for intent in cell.inflight)
        )

    def undeclared_waiting(self) -> Counter[str]:
        """For each workflow, how many cells only wait and declare no terminal status."""
        counts = Counter({name: shelf.undeclared_waiting for name, shelf in self.shelves.items()})
        counts.update(
            cell.id[0]
            for cell in self.active.values()
            if cell.declared is None and self.may_wait(cell)
        )
        return counts

    def _bound(self, shelf: Shelf) -> None:
        while len(shelf.resting) > self._resting_max:
            self._pack_oldest(shelf)

    def _remove(self, shelf: Shelf, cell: Cell) -> None:
        shelf.count -= 1
        if cell.declared is not None:
            shelf.declared[cell.declared] -= 1
        # The base may still have the cell, or a snapshot in progress may bring it back.
        if shelf.base.count or self._may_rebase_to_an_earlier_record:
            shelf.delta[cell.id] = Packed(cell.changed, None)

    @property
    def _may_rebase_to_an_earlier_record(self) -> bool:
        """Whether a snapshot may be in progress that has cells, and their work, as they were."""
        return self.spilling.is_on or self.remembers_deleted

    def _pack_oldest(self, shelf: Shelf) -> None:
        id, cell = shelf.resting.popitem(last=False)
        work = self.intents.unload(cell)
        if cell.changed <= self.at:
            return
        state = cell.state if isinstance(cell.state, bytes) else None
        packed = Packed(
            cell.changed,
            entry_of(cell),
            state,
            pack_keys(cell.keys),
            work_item(work) if work else None,
            waits=tuple(cell.inflight),
        )
        self.intents.packed.update(dict.fromkeys(packed.waits, id))
        shelf.delta[id] = packed
        self.spilling.add(id, packed.size)

    def _drop_packed(self, shelf: Shelf, id: CellId) -> None:
        packed = shelf.delta.pop(id, None)
        if packed is not None:
            self.spilling.drop(id)
            self._forget_places(packed)

    def _forget_places(self, packed: Packed) -> None:
        for intent in packed.waits:
            self.intents.packed.pop(intent, None)

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
            if packed.changed > self.at:
                delta[id] = packed.spilled()
                self._pin(packed, blobs)
            else:  # the base has it
                self._forget_places(packed)
        return blobs

    def _pin(self, packed: Packed, blobs: dict[Hash, bytes]) -> None:
        for data in packed.blobs:
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
        awake = self._awake(shelf)
        active = [cell for cell in self.active.values() if cell.id[0] == workflow]
        if count != shelf.count - sum(cell.state is None for cell in active):
            raise Damage(
                f"record {seq} migrates {count} cells of {workflow}, where there are {shelf.count}"
            )
        for cell in active:
            if cell.state is not None:
                self._replace(cell, index, seq)
        shelf.base, shelf.since = index, seq
        if shelf.waiting.count or self._may_rebase_to_an_earlier_record:
            shelf.ended.update(content_hash(id[1]) for id in (*shelf.resting, *shelf.delta))
        shelf.resting.clear()
        for id in list(shelf.delta):
            self._drop_packed(shelf, id)
        for cell in awake:
            self.put_to_rest(cell)

    def _awake(self, shelf: Shelf) -> list[Cell]:
        """Make the cells active that wait in the layers above the base; return them."""
        ids = [id for id, packed in shelf.delta.items() if packed.waits]
        ids += [id for id, cell in shelf.resting.items() if cell.inflight]
        cells = [cell for id in ids if (cell := self._at_rest(shelf, id)) is not None]
        for cell in cells:
            self.wake(cell, cell.changed)
        return cells

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

    def indexed_work(self, put: Callable[[bytes], Hash]) -> WorkIndexes:
        """Build the maps of the open work of all cells that only wait, for a snapshot of format 2.
        Otherwise as ``indexed``."""
        changes = _WorkChanges()
        waiting: dict[str, CellIndex] = {}
        for name, shelf in sorted(self.shelves.items()):
            changed: dict[Hash, Work] = {key_hash: [] for key_hash in shelf.ended}
            changed.update(self._changed_work(name, shelf))
            changes.cells = {}
            for key_hash, work in changed.items():
                changes.change(key_hash, self._stored_work(shelf, key_hash), work, self._read)
            index = shelf.waiting
            waiting[name] = index.updated(changes.cells, put) if changes.cells else index
        opened = dict(self.intents.base)
        for effect, entries in sorted(changes.opened.items()):
            index = opened.get(effect) or CellIndex(None, 0, self._read)
            opened[effect] = index.updated(entries, put)
        timers = self.intents.timers
        return WorkIndexes(
            waiting={name: index for name, index in waiting.items() if index.count},
            opened={effect: index for effect, index in opened.items() if index.count},
            timers=timers.updated(changes.timers, put) if changes.timers else timers,
        )

    def _changed_work(self, workflow: str, shelf: Shelf) -> Iterator[tuple[Hash, Work]]:
        """The open work of each cell whose entry in ``waiting`` may have changed."""
        attempts, loaded = self.intents.attempts, self.intents.loaded
        for id, packed in shelf.delta.items():
            if packed.changed > self.at:
                yield content_hash(id[1]), self._packed_work(shelf, id, packed)
        active = [cell for cell in self.active.values() if cell.id[0] == workflow]
        for cell in (*shelf.resting.values(), *active):
            if cell.changed > self.at or not self.rests_waiting:
                waits = cell.inflight if self.may_wait(cell) else ()
                work = [(loaded[intent], attempts.get(intent)) for intent in waits]
                yield content_hash(cell.id[1]), work

    def rebase_work(self, work: WorkIndexes | None) -> None:
        """Make the maps of a snapshot the base, after ``rebase``; None for one of format 1, before
        which no cell may wait at rest (``wake_waiting``)."""
        for name, shelf in self.shelves.items():
            index = None if work is None else work.waiting.get(name)
            shelf.waiting = index or CellIndex(None, 0, self._read)
            if shelf.since <= self.at or work is None:
                shelf.ended.clear()
        self.intents.rebase(
            {} if work is None else dict(work.opened),
            CellIndex(None, 0, self._read) if work is None else work.timers,
        )
        if work is not None and not self.rests_waiting:
            self.rests_waiting = True
            for cell in list(self.active.values()):
                self.put_to_rest(cell)
        self.rests_waiting = work is not None

    def wake_waiting(self) -> None:
        """Make all cells active that wait at rest, before a ``rebase`` whose base does not hold
        their work."""
        for id in [cell.id for cell in self.unrested() if cell.id not in self.active]:
            cell = self[id]
            self.wake(cell, cell.changed)

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


class _Ascending:
    """The entries of a map, for key hashes that are looked up in ascending order."""

    def __init__(self, index: CellIndex, after_hash: Hash | None, hidden: Container[Hash]) -> None:
        self._entries = index.items(after_hash) if index.count else iter(())
        self._hidden = hidden
        self._next = next(self._entries, None)

    def at(self, key_hash: Hash) -> bytes | None:
        while self._next is not None and self._next[0] < key_hash:
            self._next = next(self._entries, None)
        if self._next is None or self._next[0] != key_hash or key_hash in self._hidden:
            return None
        return self._next[1]


class _WorkChanges:
    """Changes of the maps of open work; None deletes an entry."""

    def __init__(self) -> None:
        self.cells: dict[Hash, bytes | None] = {}
        self.opened: dict[str, dict[Hash, bytes | None]] = {}
        self.timers: dict[Hash, bytes | None] = {}

    def change(self, key_hash: Hash, old: Work, new: Work, read: BlobReader) -> None:
        """The open work of a cell was ``old`` and is ``new``; empty for a cell that does not
        wait."""
        if [(intent.intent, attempt) for intent, attempt in new] == [
            (intent.intent, attempt) for intent, attempt in old
        ]:
            return
        self.cells[key_hash] = work_item(new) if new else None
        for work, is_new in ((old, False), (new, True)):
            for intent, _ in work:
                opened = self.opened.setdefault(intent.effect.name, {})
                opened[intent.intent] = opened_entry(intent) if is_new else None
                due = timer_key(intent, read)
                if due is not None:
                    self.timers[due] = intent.intent if is_new else None


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
