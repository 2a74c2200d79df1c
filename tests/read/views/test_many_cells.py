"""``aos inspect cells`` of a large world is read page by page (spec/audit.md, A-63).

The index of the cells is built directly, without events, and stored in LMDB.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from aos.core.journal.frame import Head
from aos.core.journal.records import Ref
from aos.core.state.cell import Cell
from aos.core.state.cell_index import CellIndex
from aos.core.state.cells import RESTING_MAX, Shelf
from aos.core.state.entry import entry_of
from aos.core.state.state import State
from aos.host.folder.restore import restore
from aos.read.views.cell_selection import CellSelection
from aos.read.views.cell_view import cells
from aos.read.views.view import LIMIT_MAX, View
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.memory_world import WORLD_KEY, MemoryWorld
from tests.prove.journals import LEDGER, busy_shop
from tests.tools import long_form

COUNT = 100_000 if long_form() else 7_000
PAGE = min(LIMIT_MAX, COUNT // 2)
MEMORY_BYTES_MAX = 1_000_000


def stored(world: MemoryWorld, folder: Path) -> LmdbStore:
    store = LmdbStore.create(folder)
    store.put_blobs(world.blobs)
    for group in world.sealed:
        head = store.head()
        expected = group.frame.header.prev if head is None else head.frame
        store.append([group], Head.of(group.tip).signed(WORLD_KEY), expected=expected)
    return store


def add_cells(state: State, store: LmdbStore, count: int) -> None:
    """Give the ledger ``count`` cells at rest, as a snapshot would."""
    blobs: dict[Hash, bytes] = {}

    def put(data: bytes) -> Hash:
        hash = content_hash(data)
        blobs[hash] = data
        return hash

    [like] = state.cells.of(LEDGER)
    data = encode({"total": 7, "count": 1})
    held = Ref(put(data), len(data))
    entries = {}
    for number in range(count):
        key = encode(f"c-{number:06}")
        cell = Cell(
            id=(LEDGER, key), workflow_hash=like.workflow_hash, module_hash=like.module_hash,
            state=held, last_seq=like.last_seq, last_active_ns=like.last_active_ns + number,
        )  # fmt: skip
        entries[content_hash(key)] = entry_of(cell).data
    index = CellIndex(None, 0, blobs.__getitem__).updated(entries, put)
    todo = iter(blobs.items())
    while part := dict(islice(todo, 1000)):
        store.put_blobs(part)
    state.cells.shelves[LEDGER] = Shelf(CellIndex(index.root, count, store.blob), count=count)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    world = busy_shop()
    store = stored(world, tmp_path_factory.mktemp("large") / "store")
    state = restore(store, world.state.world)
    add_cells(state, store, COUNT)
    yield View(state, store)
    store.close()


@pytest.mark.long
def test_all_cells_are_listed_page_by_page(large: View) -> None:
    """A-63: in the order of the keys, each once; cells at rest do not stay in memory."""
    keys: list[object] = []
    offset: int | None = 0
    while offset is not None:
        found = cells(large, CellSelection(workflow=LEDGER), limit=PAGE, offset=offset)
        assert (found["total"], found["looked_at"]) == (COUNT, COUNT)
        assert len(found["cells"]) <= PAGE
        keys += [each["key"] for each in found["cells"]]
        offset = found["next_offset"]

    assert keys == [f"c-{number:06}" for number in range(COUNT)]
    assert len(large.state.cells.shelves[LEDGER].resting) <= RESTING_MAX


@pytest.mark.long
def test_the_memory_for_a_page_does_not_depend_on_the_number_of_cells(large: View) -> None:
    """A-63: a list of the identities of all cells would take at least 150 bytes for each."""
    of = CellSelection(workflow=LEDGER)
    cells(large, of, limit=10)  # the nodes of the index are in memory now
    tracemalloc.start()
    try:
        oldest = cells(large, of, order="age", with_state=True, limit=10)["cells"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [each["key"] for each in oldest] == [f"c-{number:06}" for number in range(10)]
    assert oldest[0]["state"] == {"total": 7, "count": 1}
    assert peak < MEMORY_BYTES_MAX
