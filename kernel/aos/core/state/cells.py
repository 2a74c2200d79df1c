"""All cells of a world: those that have work, and those at rest in layers (spec/state.md, SN-10).

    active   mail, intents in flight, a fault, a place in the ring: always in memory
    resting  the last that came to rest: in memory, so many of each workflow
    delta    others that changed since the snapshot: their entries, packed; and what was deleted
    base     everything else: the snapshot's index of the workflow

A read goes down the layers. Which layer holds a cell decides nothing: the same records give the
same cells whatever the sizes, and the same roots.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
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
from aos.errors import Damage
from aos.values.digests import Hash, content_hash

RESTING_MAX: Final = 4096
"""Cells at rest that are kept in memory for each workflow, unless the host says otherwise."""

TIDIED: Final = 8
"""Packed cells that are looked at when one comes to rest, while some are left of an older base."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A cell of a delta: its entry, and the blobs that it names where those are not stored yet."""

    changed: int
    entry: Entry | None
    state: bytes | None = None
    keys: bytes | None = None

    @property
    def size(self) -> int:
        return len(self.state or b"") + len(self.keys or b"")


@dataclass(slots=True, eq=False)
class Shelf:
    """The cells of one workflow. ``count`` are all, ``declared`` those whose module declared this
    terminal status last."""

    base: CellIndex
    resting: OrderedDict[CellId, Cell] = field(default_factory=OrderedDict)
    delta: OrderedDict[CellId, Packed] = field(default_factory=OrderedDict)
    count: int = 0
    declared: Counter[str] = field(default_factory=Counter)
    since: int = 0
    """The record of the migration that the base came out of, if that is what it is."""

    @property
    def undeclared(self) -> int:
        return self.count - self.declared.total()


def _no_blobs(hash: Hash) -> bytes:
    raise AssertionError(f"a world without a snapshot has nothing to read: {hash.hex()}")


@dataclass(slots=True, eq=False)
class Pins:
    """What was spilled and no snapshot names yet, with the last record that changed its cell."""

    at: dict[Hash, int] = field(default_factory=dict)

    def __contains__(self, hash: object) -> bool:
        return hash in self.at

    def drop(self, last: int) -> None:
        """A snapshot after record ``last`` names the rest."""
        self.at = {hash: seq for hash, seq in self.at.items() if seq > last}


class Cells:
    """Found by (workflow, key). Whoever changes a cell calls ``wake`` before, ``rest`` after."""

    __slots__ = (
        "_delta_bytes",
        "_delta_bytes_max",
        "_is_spilling",
        "_most",
        "_packed_bytes",
        "_read",
        "_spill_bytes",
        "_stale",
        "_unspilled",
        "active",
        "at",
        "pins",
        "shelves",
        "spills",
    )

    def __init__(
        self, read: BlobReader = _no_blobs, *, at: int = 0, limits: Limits = LIMITS
    ) -> None:
        self.active: dict[CellId, Cell] = {}
        self.shelves: dict[str, Shelf] = {}
        self.at = at
        """The record that the base was taken after."""
        self.spills = False
        """Whether the host stores what ``spill`` returns."""
        self._read = read
        self._most = RESTING_MAX
        self._delta_bytes = 0
        self._delta_bytes_max = limits.delta_bytes
        self._spill_bytes = limits.spill_bytes
        self._packed_bytes = 0
        """Of the deltas' bytes, those that came since the last ``spill``."""
        self._unspilled: OrderedDict[CellId, None] = OrderedDict()
        """Packed cells of every workflow whose bytes are in memory, the oldest first."""
        self._is_spilling = False
        self._stale: list[tuple[Shelf, Iterator[CellId]]] = []
        self.pins = Pins()
        """Blobs that only this object needs. Another thread may ask whether one is among them."""

    def keep(self, most: int) -> None:
        """Keep up to ``most`` cells at rest in memory for each workflow."""
        self._most = max(most, 1)

    def read_with(self, read: BlobReader) -> None:
        """Read blobs so from here on: what was spilled may not be durable yet, and a replay takes
        snapshots of its own whose parts are nowhere else."""
        self._read = read
        for shelf in self.shelves.values():
            shelf.base = CellIndex(shelf.base.root, shelf.base.count, read)

    # Reading

    def get(self, id: CellId) -> Cell | None:
        """Raises: Damage: The index, or an entry of it, cannot be read."""
        found = self.active.get(id)
        if found is not None:
            return found
        shelf = self.shelves.get(id[0])
        return None if shelf is None else self._at_rest(shelf, id)

    def __getitem__(self, id: CellId) -> Cell:
        found = self.active.get(id) or self.get(id)
        if found is None:
            raise KeyError(id)
        return found

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
        """All cells, by workflow and then by the hash of the key. Those at rest are read for this
        and not kept."""
        for workflow in sorted(self.shelves):
            yield from self.of(workflow)

    def statuses(self, workflow: str) -> Counter[str]:
        """How many cells of a workflow have each status; those at rest are not read for it."""
        found: Counter[str] = Counter()
        shelf = self.shelves.get(workflow)
        if shelf is None:
            return found
        found += shelf.declared
        found["running"] = shelf.undeclared
        for cell in self.active.values():
            if cell.id[0] == workflow:
                found[cell.declared or "running"] -= 1
                found[cell.status] += 1
        return found

    def of(self, workflow: str, after: Hash | None = None) -> Iterator[Cell]:
        """The cells of one workflow by the hash of their key, from after this hash on."""
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
        ours = sorted(hash for hash in above if after is None or hash > after)
        for hash, data in heapq.merge([(each, b"") for each in ours], _others(shelf, after, above)):
            held = above.get(hash)
            if isinstance(held, Cell):
                yield held
            elif held is None:
                yield self._cell(workflow, Entry(data))
            elif held.entry is not None:
                yield self._cell(workflow, held.entry, held)

    def changed(self, workflow: str, since: int) -> Iterator[Cell]:
        """The cells of one workflow that a record after ``since`` changed, in no order that means
        anything. ``since`` is not before ``at``: what changed after that is in memory."""
        assert since >= self.at, f"cells since record {since}, and the base is of {self.at}"
        shelf = self.shelf(workflow)
        for id, packed in list(shelf.delta.items()):
            if packed.changed > since and packed.entry is not None and id not in self.active:
                yield self._cell(workflow, packed.entry, packed)
        above = [each for each in self.active.values() if each.id[0] == workflow]
        for cell in (*shelf.resting.values(), *above):
            if cell.changed > since:
                yield cell

    def naming(self, blob: Hash) -> Iterator[Cell]:
        """The cells whose state, or whose keys, are this blob. Looks at every entry."""
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
                        if not self._is_above(shelf, cell.id):
                            yield cell

    def _is_above(self, shelf: Shelf, id: CellId) -> bool:
        return id in self.active or id in shelf.resting or id in shelf.delta

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
        # Where states are spilled, only ``rest`` packs: a read does not add to a frame's blobs.
        if not self.spills:
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
        """The cells of a workflow; an empty shelf where there was none."""
        found = self.shelves.get(workflow)
        if found is None:
            found = Shelf(CellIndex(None, 0, self._read))
            self.shelves[workflow] = found
        return found

    def add(self, cell: Cell) -> None:
        """Take a cell that is new."""
        shelf = self.shelf(cell.id[0])
        shelf.count += 1
        self._drop_packed(shelf, cell.id)
        self.active[cell.id] = cell

    def wake(self, cell: Cell, seq: int) -> None:
        """Record ``seq`` changes it."""
        cell.changed = seq
        if cell.id not in self.active:
            shelf = self.shelves[cell.id[0]]
            shelf.resting.pop(cell.id, None)
            self._drop_packed(shelf, cell.id)
            self.active[cell.id] = cell

    def declare(self, cell: Cell, status: TerminalStatus | None) -> None:
        """Its module declared a terminal status, or took it back."""
        if cell.declared == status:
            return
        declared = self.shelves[cell.id[0]].declared
        if cell.declared is not None:
            declared[cell.declared] -= 1
        if status is not None:
            declared[status] += 1
        cell.declared = status

    def rest(self, cell: Cell) -> None:
        """What changes it is over: where nothing is left to do it comes to rest, or is gone."""
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
        while len(shelf.resting) > self._most:
            self._pack_oldest(shelf)

    def _remove(self, shelf: Shelf, cell: Cell) -> None:
        shelf.count -= 1
        if cell.declared is not None:
            shelf.declared[cell.declared] -= 1
        # A snapshot that is in the making may still bring it, as may the base.
        if self.spills or shelf.base.count:
            shelf.delta[cell.id] = Packed(cell.changed, None)

    def _pack_oldest(self, shelf: Shelf) -> None:
        id, cell = shelf.resting.popitem(last=False)
        if cell.changed <= self.at:
            return
        state = cell.state if isinstance(cell.state, bytes) else None
        packed = Packed(cell.changed, entry_of(cell), state, pack_keys(cell.keys))
        shelf.delta[id] = packed
        size = packed.size
        if size:
            self._unspilled[id] = None
            self._delta_bytes += size
            if self.spills:  # a restart packs as it folds, and has no frame that waits
                self._packed_bytes += size

    def _drop_packed(self, shelf: Shelf, id: CellId) -> None:
        packed = shelf.delta.pop(id, None)
        if packed is not None and packed.size:
            self._delta_bytes -= packed.size
            del self._unspilled[id]

    def spill(self) -> dict[Hash, bytes]:
        """Return the blobs that leave memory with the frame that ends now (SN-11a); once a frame.

        They begin to leave when the deltas hold more than ``Limits.delta_bytes``, and continue
        frame by frame until half of it is left. Their cells stay as dirty as they were.
        """
        packed_bytes, self._packed_bytes = self._packed_bytes, 0
        found: dict[Hash, bytes] = {}
        if not self.spills:
            return found
        if self._delta_bytes > self._delta_bytes_max:
            self._is_spilling = True
        left = 0
        while self._is_spilling:
            if self._delta_bytes <= self._delta_bytes_max // 2:
                self._is_spilling = False
                break
            id = next(iter(self._unspilled))
            shelf = self.shelves[id[0]]
            packed = shelf.delta[id]
            # A cell that is larger than the whole bound leaves alone.
            if left and left >= packed_bytes and left + packed.size > self._spill_bytes:
                break
            left += packed.size
            self._drop_packed(shelf, id)
            if packed.changed > self.at:  # else the base has it
                shelf.delta[id] = Packed(packed.changed, packed.entry)
                self._pin(packed, found)
        return found

    def _pin(self, packed: Packed, found: dict[Hash, bytes]) -> None:
        for data in (packed.state, packed.keys):
            if data is not None:
                hash = content_hash(data)
                found[hash] = data
                # Another cell may have the same state, and have it for longer.
                self.pins.at[hash] = max(packed.changed, self.pins.at.get(hash, 0))

    # Migrations

    def replace(self, workflow: str, root: Hash, count: int, *, seq: int, read: BlobReader) -> None:
        """Record ``seq`` has migrated all cells of a workflow: these are their entries now.

        Raises:
            Damage: The index cannot be read, or is not of these cells.
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
        after = Entry(data).to_cell(cell.id[0], self._read)
        cell.state = after.state
        cell.workflow_hash, cell.module_hash = after.workflow_hash, after.module_hash
        cell.version, cell.is_kept = 0, False
        cell.changed = seq

    # Snapshots

    def indexed(self, put: Callable[[bytes], Hash]) -> dict[str, CellIndex]:
        """The index of each workflow as it is now; ``put`` gets every blob that is new."""
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
        """Go on from the indexes of a snapshot that was taken after record ``at``. What changed
        since stays above them; the rest leaves memory as other cells come to rest, or by ``tidy``:
        all of it at once would stop the world for as long as it takes."""
        self.at = at
        self.pins.drop(at)
        for name, index in indexes.items():
            if self.shelf(name).since <= at:
                self.shelf(name).base = index
        for name, shelf in self.shelves.items():
            # A migration since has written every cell anew: no older snapshot is below that.
            if shelf.since > at:
                continue
            if name not in indexes:
                shelf.base = CellIndex(None, 0, self._read)
            if shelf.delta:
                self._stale.append((shelf, iter(tuple(shelf.delta))))

    def tidy(self, most: int | None = None) -> None:
        """Let go of cells that the base has as they are: of all, or look at up to ``most``."""
        while self._stale:
            shelf, ids = self._stale[-1]
            looked = 0
            for id in islice(ids, most):
                looked += 1
                packed = shelf.delta.get(id)
                if packed is not None and packed.changed <= self.at:
                    self._drop_packed(shelf, id)
            if looked != most:
                self._stale.pop()
            if most is not None:
                return


def _others(
    shelf: Shelf, after: Hash | None, above: Mapping[Hash, Cell | Packed]
) -> Iterator[tuple[Hash, bytes]]:
    """The entries of the base that nothing in memory hides."""
    for hash, data in shelf.base.items(after):
        if hash not in above:
            yield hash, data


def _stored(cell: Cell, put: Callable[[bytes], Hash]) -> bytes | None:
    """The entry of a cell, once everything that it names is stored; None where it has no state."""
    if cell.state is None:
        return None
    if not isinstance(cell.state, Ref):
        put(cell.state)
    keys = pack_keys(cell.keys)
    if keys is not None:
        put(keys)
    return entry_of(cell).data
