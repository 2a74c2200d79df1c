"""Cells at rest are the same in every layer that holds them (SN-10 to SN-12).

The naive model is a dict. The cells compared with it have few places in memory, spill everything
that they can, take snapshots, rebase on them later, and restart from them.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.records import CellId, Ref, slot_bytes
from aos.core.journal.vocabulary import TerminalStatus
from aos.core.limits import LIMITS, Limits
from aos.core.state.cell import Cell
from aos.core.state.cell_index import CellIndex
from aos.core.state.cells import TIDIED, Cells
from aos.core.state.entry import Entry, entry_of, pack_keys, read_keys
from aos.errors import Damage
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.run_seed import examples

WORKFLOWS: Final = ("t/a@1", "t/b@1")
IDS: Final = [(workflow, bytes([0x61, 0x61 + i])) for workflow in WORKFLOWS for i in range(3)]
STATUSES: Final[tuple[TerminalStatus | None, ...]] = (None, None, "completed", "failed")
OF: Final = Hash(b"w" * 32)
TRAP: Final = Fault(kind=FaultKind.TRAP, message="on purpose")


@dataclass
class Plain:
    """The model's values of one cell."""

    state: bytes | None
    declared: TerminalStatus | None = None
    keys: tuple[tuple[str, Hash], ...] = ()
    seq: int = 0
    is_failed: bool = False


@dataclass
class Blobs:
    """A blob store in memory; reading a missing blob raises ``Damage``."""

    held: dict[Hash, bytes] = field(default_factory=dict)
    reads: int = 0
    puts: list[bytes] = field(default_factory=list)

    def read(self, hash: Hash) -> bytes:
        self.reads += 1
        if hash not in self.held:
            raise Damage(f"blob {hash.hex()} is missing")
        return self.held[hash]

    def put(self, data: bytes) -> Hash:
        self.puts.append(data)
        hash = content_hash(data)
        self.held[hash] = data
        return hash


@dataclass
class Base:
    """A snapshot of the cells: the contents of its document and its pages."""

    at: int
    indexes: dict[str, CellIndex]
    counts: dict[str, tuple[int, Counter[str]]]
    active: list[Cell]
    model: dict[CellId, Plain]


class Pair:
    """The cells and the model, changed together."""

    def __init__(
        self,
        blobs: Blobs,
        *,
        keep: int = 1,
        spills: bool = True,
        delta_bytes: int = LIMITS.delta_bytes,
    ) -> None:
        self.blobs = blobs
        self.limits = Limits(delta_bytes=delta_bytes)
        self.model: dict[CellId, Plain] = {}
        self.seq = 0
        self.spills = spills
        self.cells = self.fresh(keep)

    def fresh(self, keep: int, at: int = 0) -> Cells:
        cells = Cells(self.blobs.read, at=at, limits=self.limits)
        cells.keep(keep)
        cells.spilling.is_on = self.spills
        return cells

    # As a fold changes cells

    def _woken(self, id: CellId) -> Cell:
        cell = self.cells.get(id)
        if cell is None:
            cell = Cell(id=id, workflow_hash=OF, module_hash=OF)
            self.cells.add(cell)
        self.cells.wake(cell, self.seq)
        return cell

    def write(self, id: CellId, state: bytes, declared: TerminalStatus | None, keys: int) -> None:
        """A step, as far as a cell at rest sees it. One that has failed takes mail alone."""
        self.seq += 1
        if id in self.model and self.model[id].is_failed:
            return
        named = tuple((f"key-{i}", content_hash(bytes([i]))) for i in range(keys))
        cell = self._woken(id)
        cell.state = state
        cell.keys = OrderedDict(named)
        cell.last_seq = cell.last_active_ns = self.seq
        self.cells.declare(cell, declared)
        self._rest(cell)
        self.model[id] = Plain(state, declared, named, self.seq)

    def fail(self, id: CellId) -> None:
        """It stays in memory, also where it has no state."""
        self.seq += 1
        cell = self._woken(id)
        cell.fault = cell.fault or TRAP
        cell.last_seq = cell.last_active_ns = self.seq
        self._rest(cell)
        plain = self.model.get(id, Plain(None))
        self.model[id] = replace(plain, seq=self.seq, is_failed=True)

    def mend(self, id: CellId) -> None:
        self.seq += 1
        if id in self.model and self.model[id].is_failed:
            cell = self._woken(id)
            cell.fault = None
            cell.last_active_ns = cell.last_seq = self.seq
            self._rest(cell)
            if self.model[id].state is None:
                del self.model[id]
            else:
                self.model[id] = replace(self.model[id], seq=self.seq, is_failed=False)

    def delete(self, id: CellId) -> None:
        """A step that leaves no state."""
        self.seq += 1
        if id in self.model and not self.model[id].is_failed:
            cell = self._woken(id)
            cell.state = None
            cell.keys.clear()
            self._rest(cell)
            del self.model[id]

    def _rest(self, cell: Cell) -> None:
        self.cells.put_to_rest(cell)
        self.blobs.held.update(self.cells.spill())

    # Snapshots

    def take(self) -> Base:
        active = [copy.deepcopy(cell) for cell in self.cells.active.values()]
        shelves = self.cells.shelves
        return Base(
            self.seq,
            self.cells.indexed(self.blobs.put),
            {name: (each.count, Counter(each.declared)) for name, each in shelves.items()},
            active,
            copy.deepcopy(self.model),
        )

    def load(self, base: Base, keep: int) -> None:
        """Start again from a snapshot, as ``snapshot.load`` does."""
        self.seq, self.model = base.at, copy.deepcopy(base.model)
        self.cells = self.fresh(keep, at=base.at)
        for name, (count, declared) in base.counts.items():
            shelf = self.cells.shelf(name)
            shelf.count, shelf.declared = count, Counter(declared)
            index = base.indexes[name]
            shelf.base = CellIndex(index.root, index.count, self.blobs.read)
        for cell in base.active:
            self.cells.active[cell.id] = loaded = copy.deepcopy(cell)
            loaded.changed = 0

    # Values that must be equal

    def shown(self, cell: Cell | None) -> Plain | None:
        if cell is None:
            return None
        state = None if cell.state is None else slot_bytes(cell.state, self.blobs.read)
        is_failed = cell.fault is not None
        return Plain(state, cell.declared, tuple(cell.keys.items()), cell.last_seq, is_failed)

    def check(self) -> None:
        for workflow in WORKFLOWS:
            expected = sorted((content_hash(id[1]), id) for id in self.model if id[0] == workflow)
            ids = [id for _, id in expected]
            assert [each.id for each in self.cells.of(workflow)] == ids
            for hash, _ in expected[:2]:
                beyond = [id for other, id in expected if other > hash]
                assert [each.id for each in self.cells.of(workflow, hash)] == beyond
            declared = [self.model[id].declared for id in ids]
            failed = {id for id in ids if self.model[id].is_failed}
            statuses = Counter(
                "failed" if id in failed else status or "running"
                for id, status in zip(ids, declared, strict=True)
            )
            assert +self.cells.statuses(workflow) == statuses
            if ids:
                assert self.cells.shelves[workflow].undeclared == declared.count(None)
        assert len(self.cells) == len(self.model)
        assert {id: self.shown(cell) for id, cell in self.cells.items()} == self.model

    def check_pins(self) -> None:
        """Assert that the base names each blob that left memory, or that the blob is pinned while
        nothing durable names it (``host/world/collecting.py`` reads the pins)."""
        for shelf in self.cells.shelves.values():
            durable = {each for _, data in shelf.base.items() for each in Entry(data).references()}
            needed: set[Hash] = set()
            for packed in shelf.delta.values():
                if packed.entry is not None:
                    blobs = (packed.state, packed.keys)
                    stored = {content_hash(each) for each in blobs if each is not None}
                    needed |= set(packed.entry.references()) - stored
            for cell in shelf.resting.values():
                needed |= {cell.state.hash} if isinstance(cell.state, Ref) else set()
            assert all(each in durable or each in self.cells.spilling.pins for each in needed)

    def check_named(self, since: int) -> None:
        for blob in map(content_hash, (b"", b"s", b"t", b"l" * 40, b"another")):
            held = {id for id, plain in self.model.items()
                    if plain.state is not None and content_hash(plain.state) == blob}  # fmt: skip
            assert {each.id for each in self.cells.naming(blob)} == held
        for workflow in WORKFLOWS:
            changed = {each.id for each in self.cells.changed(workflow, since)}
            ours = {id: plain for id, plain in self.model.items() if id[0] == workflow}
            assert changed == {id for id, plain in ours.items() if plain.seq > since}

    def check_reads(self) -> None:
        self.check_pins()
        self.check_named(max(self.cells.at, self.seq - 5))
        for id in IDS:
            assert (id in self.cells) == (id in self.model)
            assert self.shown(self.cells.get(id)) == self.model.get(id)

    def roots(self) -> dict[str, Hash | None]:
        found = {name: each.root for name, each in self.cells.indexed(content_hash).items()}
        return {name: root for name, root in found.items() if root is not None}


def roots_of(
    model: dict[CellId, Plain], order: random.Random, *, keep: int
) -> dict[str, Hash | None]:
    """The roots of a world that had nothing but these cells, each written once."""
    other = Pair(Blobs(), keep=keep, spills=False)
    other.seq = 1
    listed = [(id, plain) for id, plain in model.items() if plain.state is not None]
    order.shuffle(listed)
    for id, plain in listed:
        assert plain.state is not None
        cell = other._woken(id)
        cell.state, cell.keys = plain.state, OrderedDict(plain.keys)
        cell.last_seq = cell.last_active_ns = plain.seq
        other.cells.declare(cell, plain.declared)
        other._rest(cell)
    return other.roots()


Change = Callable[[Pair], None]

states = st.sampled_from([b"", b"s", b"t", b"l" * 40])
writes = st.builds(
    lambda cell, state, declared, keys: lambda pair: pair.write(cell, state, declared, keys),
    st.sampled_from(IDS), states, st.sampled_from(STATUSES), st.sampled_from([0, 0, 1, 2]),
)  # fmt: skip


def about(method: str) -> st.SearchStrategy[Change]:
    return st.builds(lambda cell: lambda pair: getattr(pair, method)(cell), st.sampled_from(IDS))


changes: st.SearchStrategy[Change] = st.one_of(
    writes, writes, writes, about("delete"), about("delete"), about("fail"), about("mend")
)
doings: st.SearchStrategy[Any] = st.one_of(
    changes, changes, changes, changes, st.sampled_from(["take", "rebase", "load", "read", "root"])
)


@settings(max_examples=examples(25))
@given(
    st.lists(doings, min_size=30, max_size=60),
    st.sampled_from([0, 1, 2, 50]),
    st.sampled_from([0, 45, 10**6]),
    st.randoms(use_true_random=False),
)
def test_cells_are_a_dict_whatever_holds_them(
    done: list[Any], keep: int, delta_bytes: int, chance: random.Random
) -> None:
    pair = Pair(Blobs(), keep=keep, delta_bytes=delta_bytes)
    pair.cells._resting_max = keep
    base: Base | None = None
    since: list[Change] = []
    for each in done:
        match each:
            case "take":
                base, since = pair.take(), []
            case "rebase" if base is not None:
                # By now the cells are newer than the snapshot.
                pair.cells.rebase(base.indexes, base.at)
            case "load" if base is not None:
                model, seq = pair.model, pair.seq
                pair.load(base, max(keep, 1))
                for change in since:
                    change(pair)
                assert (pair.model, pair.seq) == (model, seq)
            case "read":
                pair.check_reads()
            case "root":
                assert pair.roots() == roots_of(pair.model, chance, keep=chance.randint(1, 4))
            case str():
                pass
            case change:
                change(pair)
                since.append(change)
        pair.check()
    pair.check_reads()
    assert pair.roots() == roots_of(pair.model, chance, keep=9)


@pytest.mark.parametrize("keep", [1, 10, 1000])
def test_many_cells_have_one_root_in_any_order(keep: int) -> None:
    """More than fit a node, so that the index splits."""
    ids = [("t/a@1", encode(number)) for number in range(300)]
    found = set()
    for order in (1, 2):
        pair = Pair(Blobs(), keep=keep)
        random.Random(order).shuffle(ids)
        for number, id in enumerate(ids):
            pair.write(id, b"first", None, 0)
            if number % 100 == 50:
                base = pair.take()
                pair.cells.rebase(base.indexes, base.at)
        for id in sorted(ids):
            cell = pair._woken(id)
            cell.state = b"state of " + id[1]
            cell.last_seq = cell.last_active_ns = 7
            pair._rest(cell)
        found.add(tuple(pair.roots().items()))
        assert len(pair.cells) == 300

    assert len(found) == 1


# Memory


def written(count: int, *, keep: int, delta_bytes: int = LIMITS.delta_bytes) -> Pair:
    pair = Pair(Blobs(), keep=keep, delta_bytes=delta_bytes)
    for number in range(count):
        pair.write(("t/a@1", encode(number)), b"state %d" % number, None, 1)
    return pair


def held(pair: Pair) -> int:
    """Cells in memory, in any form."""
    shelves = pair.cells.shelves.values()
    return len(pair.cells.active) + sum(len(each.resting) + len(each.delta) for each in shelves)


def test_after_a_rebase_only_what_changed_since_is_in_memory() -> None:
    pair = written(500, keep=10)
    base = pair.take()
    for number in range(7):
        pair.write(("t/a@1", encode(number)), b"changed", None, 0)
    assert held(pair) == 500

    pair.cells.rebase(base.indexes, base.at)
    pair.cells.tidy()

    assert held(pair) == 10
    pair.write(("t/a@1", encode(400)), b"changed", None, 0)
    assert held(pair) <= 10 + 8
    pair.check()


def test_after_a_rebase_memory_is_given_back_as_cells_come_to_rest() -> None:
    """SN-13: in small parts, so that no input waits for the whole."""
    pair = written(500, keep=10)
    base = pair.take()
    pair.cells.rebase(base.indexes, base.at)
    before = held(pair)

    pair.write(("t/a@1", encode(400)), b"changed", None, 0)
    assert before - held(pair) == TIDIED + 1  # and the one that had to make room for it
    for _ in range(500 // TIDIED):
        pair.write(("t/a@1", encode(400)), b"changed", None, 0)

    assert held(pair) == 10
    pair.check()


def test_a_reader_keeps_no_more_cells_than_a_writer() -> None:
    """H-48."""
    pair = written(100, keep=1)
    base = pair.take()
    other = Cells(pair.blobs.read, at=base.at)
    other.keep(7)
    other.shelf("t/a@1").base = base.indexes["t/a@1"]

    for number in range(100):
        assert other.get(("t/a@1", encode(number))) is not None

    assert len(other.shelves["t/a@1"].resting) == 7
    assert not other.shelves["t/a@1"].delta


def test_cells_that_do_not_fit_memory_are_spilled_and_stay_dirty() -> None:
    pair = written(200, keep=1, delta_bytes=1000)
    packed = pair.cells.shelves["t/a@1"].delta.values()
    before = pair.roots()

    assert sum(each.size for each in packed) <= 1000
    assert pair.cells.spilling.bytes == sum(each.size for each in packed)
    assert len(packed) == 199
    pair.check()
    assert pair.roots() == before == roots_of(pair.model, random.Random(1), keep=500)


def test_nothing_is_spilled_without_a_taker() -> None:
    pair = Pair(Blobs(), keep=1, spills=False, delta_bytes=0)
    for number in range(20):
        pair.write(("t/a@1", encode(number)), b"state", None, 1)

    assert pair.cells.spill() == {}
    assert pair.blobs.held == {}
    pair.check()


def test_a_cell_that_is_reached_again_in_its_frame_is_not_spilled() -> None:
    """One record may bring a cell to rest and reach it again: what it holds is in no store yet."""
    cells = Cells(Blobs().read, limits=Limits(delta_bytes=0))
    cells.spilling.is_on = True
    cells._resting_max = 0
    cell = Cell(id=IDS[0], workflow_hash=OF, module_hash=OF, state=b"s")
    cell.keys["key"] = OF
    cells.add(cell)
    cells.wake(cell, 1)
    cells.put_to_rest(cell)

    found = cells[IDS[0]]

    assert found is not cell
    assert (found.state, found.keys) == (b"s", {"key": OF})
    assert cells.spill() == {}


KIB: Final = 1024


def at_rest(cells: Cells, id: CellId, seq: int, state: bytes) -> None:
    """A new cell that comes to rest with record ``seq``."""
    cell = Cell(id=id, workflow_hash=OF, module_hash=OF, state=state)
    cells.add(cell)
    cells.wake(cell, seq)
    cells.put_to_rest(cell)


def spilled_by_frame(
    frames: Sequence[tuple[int, int]], limits: Limits
) -> Iterator[tuple[int, int]]:
    """For frames of (cells, bytes of each state): the bytes that each spills, and those that the
    deltas then hold. Workflows take turns."""
    cells = Cells(Blobs().read, limits=limits)
    cells.spilling.is_on = True
    cells.keep(1)
    seq = 0
    for count, size in frames:
        for _ in range(count):
            seq += 1
            id = (WORKFLOWS[seq % len(WORKFLOWS)], encode(seq))
            at_rest(cells, id, seq, seq.to_bytes(size, "big"))
        yield sum(map(len, cells.spill().values())), cells.spilling.bytes


def test_a_frame_spills_no_more_than_its_bound_and_the_rest_goes_with_the_next_frames() -> None:
    """SN-11a: measured here, 8 MiB at most in memory and frames of 128 KiB: 7 frames of 512 KiB in
    place of one of 4 MiB."""
    found = list(spilled_by_frame([(32, 4 * KIB)] * 200, Limits(delta_bytes=8192 * KIB)))

    most = max(spilled for spilled, _ in found)
    assert most == Limits().spill_bytes == 512 * KIB
    assert max(held for _, held in found) <= 8192 * KIB
    # Once begun, spilling continues until half is left, then pauses until the bound is reached.
    first = next(at for at, (spilled, _) in enumerate(found) if spilled)
    run = [spilled for spilled, _ in found[first:]]
    assert run.index(0) >= 8
    assert found[first + run.index(0) - 1][1] <= 4096 * KIB + 512 * KIB
    assert sum(spilled for spilled, _ in found) + found[-1][1] == (200 * 32 - 2) * 4 * KIB


@pytest.mark.parametrize("size", [KIB, 4 * KIB, 3000])
def test_frames_that_pack_more_than_the_bound_spill_as_much_as_they_pack(size: int) -> None:
    """SN-11a: memory is bounded whatever the load, and however much there was at the start."""
    brought = 1024 * KIB
    found = list(spilled_by_frame([(brought // size, size)] * 40, Limits(delta_bytes=2048 * KIB)))

    assert max(spilled for spilled, _ in found) < brought + size
    assert max(held for _, held in found) <= 2048 * KIB + brought
    assert found[-1][1] <= found[10][1]


def test_a_state_that_is_larger_than_the_bound_is_spilled_alone() -> None:
    """SN-11a."""
    found = list(
        spilled_by_frame(
            [(5, 40), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)], Limits(delta_bytes=0, spill_bytes=10)
        )
    )

    # The frame that packs them spills them; of those that come first in memory one stays each.
    assert [spilled for spilled, _ in found] == [120, 0, 0, 0, 0, 0]


def test_cells_in_memory_at_the_start_leave_it_frame_by_frame() -> None:
    """SN-11a: a restart folds without spilling."""
    cells = Cells(Blobs().read, limits=Limits(delta_bytes=1024 * KIB))
    cells.keep(1)
    for seq in range(1, 1002):
        at_rest(cells, ("t/a@1", encode(seq)), seq, seq.to_bytes(4 * KIB, "big"))
    cells.spilling.is_on = True

    found = [sum(map(len, cells.spill().values())) for _ in range(10)]

    assert found == [512 * KIB] * 6 + [416 * KIB] + [0] * 3
    assert cells.spilling.bytes == 512 * KIB


def test_the_oldest_are_spilled_whatever_their_workflow() -> None:
    """SN-11a: a workflow that is quiet does not keep the others' states out of memory."""
    cells = Cells(Blobs().read, limits=Limits(delta_bytes=100 * KIB))
    cells.spilling.is_on = True
    cells.keep(1)
    for seq in range(1, 101):
        at_rest(cells, ("t/a@1", encode(seq)), seq, seq.to_bytes(KIB, "big"))
        cells.spill()
    for seq in range(101, 131):
        at_rest(cells, ("t/b@1", encode(seq)), seq, seq.to_bytes(KIB, "big"))
        cells.spill()

    quiet, busy = cells.shelves["t/a@1"].delta, cells.shelves["t/b@1"].delta
    spilled = {id[1] for id, packed in quiet.items() if not packed.size}
    assert spilled == {encode(seq) for seq in range(1, 52)}
    assert all(each.size for each in busy.values())


def test_cells_that_a_snapshot_has_are_dropped_and_not_spilled() -> None:
    """SN-13: the base has it."""
    pair = written(200, keep=1)
    base = pair.take()
    pair.cells.rebase(base.indexes, base.at)
    pair.cells.spilling.bytes_max = 0

    assert pair.cells.spill() == {}
    assert pair.cells.spilling.bytes == 0
    assert not pair.cells.spilling.pins.at
    pair.check()


def test_a_cell_that_is_read_is_the_same_object_until_it_leaves_memory() -> None:
    pair = written(3, keep=2)

    assert all(pair.cells[id] is pair.cells[id] for id in pair.model)


def test_a_missing_cell_is_none_and_no_key() -> None:
    cells = Cells()

    assert cells.get(IDS[0]) is None
    assert IDS[0] not in cells
    assert len(cells) == 0
    assert list(cells.values()) == []
    with pytest.raises(KeyError):
        cells[IDS[0]]


def test_the_index_of_a_snapshot_costs_what_changed() -> None:
    """SN-8: blobs are put for the cells that changed and the nodes above them."""
    pair = written(3000, keep=50)
    base = pair.take()
    pair.cells.rebase(base.indexes, base.at)
    costs = {}
    for touched in (0, 1, 10, 100):
        for number in range(touched):
            pair.write(("t/a@1", encode(number * 29)), b"%d again" % touched, None, 0)
        pair.blobs.puts.clear()
        base = pair.take()
        pair.cells.rebase(base.indexes, base.at)
        costs[touched] = (len(pair.blobs.puts), sum(map(len, pair.blobs.puts)))

    assert costs[0] == (0, 0)
    for touched in (1, 10, 100):
        blobs, size = costs[touched]
        # Each: its state, its leaf and the interior nodes above; a leaf has 64 entries at most.
        assert blobs <= 4 * touched, costs
        assert size <= touched * (64 * 200 + 3000), costs


# Entries (SN-12)


def full_cell() -> Cell:
    return Cell(
        id=("t/a@1", b"\x61a"), workflow_hash=Hash(b"w" * 32), module_hash=Hash(b"m" * 32),
        state=Ref(content_hash(b"state"), 5), declared="completed", last_seq=12,
        last_active_ns=1_700_000_000_000_000_000,
        keys=OrderedDict([("b", Hash(b"1" * 32)), ("a", Hash(b"2" * 32))]),
    )  # fmt: skip


def fields(cell: Cell) -> tuple[Any, ...]:
    return (
        cell.id, cell.workflow_hash, cell.module_hash, cell.state, cell.declared, cell.last_seq,
        cell.last_active_ns, list(cell.keys.items()), cell.version, cell.is_kept,
    )  # fmt: skip


def test_an_entry_is_read_as_it_was_written() -> None:
    cell = full_cell()
    keys = pack_keys(cell.keys)
    assert keys is not None
    blobs = Blobs()
    blobs.put(keys)

    found = entry_of(cell).to_cell("t/a@1", blobs.read)

    assert fields(found) == fields(cell)
    assert entry_of(cell).references() == (content_hash(b"state"), content_hash(keys))
    assert found.changed == 0


def test_a_state_in_memory_has_the_entry_of_one_in_store() -> None:
    cell = full_cell()
    cell.state = b"state"

    assert entry_of(cell) == entry_of(full_cell())


def bad_entries() -> Iterator[tuple[str, Value]]:
    state, of = content_hash(b"state"), bytes(32)
    good: list[Value] = [b"key", state, 5, 6, 7, of, of, {}]
    wrong: dict[int, list[Value]] = {
        0: ["key", None, 1], 1: [b"short", None, bytes(33)], 2: [-1, None, "5", True],
        3: [-1, None, True], 4: [-1, b"", True], 5: [b"", None], 6: [bytes(31), 0],
        7: [
            [], None, {"more": 1}, {"status": "waiting"}, {"status": None}, {"keys": b"short"},
            {"keys": "text"}, {"keys": None}, {0: 0},
        ],
    }  # fmt: skip
    for index, values in wrong.items():
        for value in values:
            yield f"{index}: {value!r}", [*good[:index], value, *good[index + 1 :]]
    yield "short", good[:-1]
    yield "long", [*good, 0]
    yield "a map", {"key": b""}
    yield "null", None


@pytest.mark.parametrize("value", [pytest.param(v, id=n) for n, v in bad_entries()])
def test_an_entry_that_none_writes_is_damage(value: Value) -> None:
    entry = Entry(encode(value))

    with pytest.raises(Damage, match="a cell's entry is not one that is written"):
        entry.to_cell("t/a@1", Blobs().read)
    with pytest.raises(Damage):
        entry.references()


def test_an_altered_entry_is_damage_or_another_cell() -> None:
    cell = full_cell()
    blobs = Blobs()
    blobs.put(pack_keys(cell.keys) or b"")
    data = entry_of(cell).data
    for at in range(8 * len(data)):
        altered = bytearray(data)
        altered[at // 8] ^= 1 << at % 8
        try:
            found = Entry(bytes(altered)).to_cell("t/a@1", blobs.read)
        except Damage:
            continue
        assert fields(found) != fields(cell)
    for size in range(len(data)):
        with pytest.raises(Damage, match="a cell's entry is not canonical CBOR"):
            Entry(data[:size]).to_cell("t/a@1", blobs.read)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [["a"]],
        [["a", b"short"]],
        [[b"a", OF]],
        [["a", OF], ["a", OF]],
        [["a", OF, 1]],
        [1],
    ],
)
def test_keys_that_none_writes_are_damage(value: Value) -> None:
    with pytest.raises(Damage, match=r"a cell's keys are not \[key, hash of params\] each"):
        read_keys(encode(value))


def test_keys_are_read_in_their_order() -> None:
    keys = OrderedDict([("b", OF), ("a", OF)])

    assert pack_keys(OrderedDict()) is None
    assert list(read_keys(pack_keys(keys) or b"").items()) == [("b", OF), ("a", OF)]
    with pytest.raises(Damage, match="a cell's keys are not canonical CBOR"):
        read_keys(b"\x9f\xff")
