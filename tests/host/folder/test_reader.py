"""A reader that follows a world and continues from its snapshots (H-40a, SN-13)."""

from __future__ import annotations

import pytest

from aos.core.journal.frame import Head
from aos.host.folder.folder import WorldFolder
from aos.host.folder.reader import WorldReader
from aos.host.folder.restore import restore
from aos.store.memory_store import MemoryStore
from tests.core.cases import case, cases, tell
from tests.memory_world import WORLD_KEY, MemoryWorld


def append(store: MemoryStore, world: MemoryWorld) -> None:
    """Store the frames that are not stored yet."""
    head = store.head()
    first = 0 if head is None else head.seq
    for sealed in world.sealed:
        if sealed.frame.header.first > first:
            signed = Head.of(sealed.tip).signed(WORLD_KEY)
            store.append([sealed], signed, expected=sealed.frame.header.prev)


@pytest.mark.parametrize("is_deleted_before_the_reader_begins", [False, True])
def test_a_cell_that_was_deleted_after_a_snapshot_does_not_come_back(
    is_deleted_before_the_reader_begins: bool,
) -> None:
    """The snapshot was taken before the deletion, and is recorded after it."""
    world, store = cases(), MemoryStore()
    for id in ("a", "b"):
        tell(world, id)
    append(store, world)
    early = WorldReader(WorldFolder.__new__(WorldFolder), store, restore(store, world.state.world))
    snapshot = world.kernel.snapshot(world.put)
    store.put_blobs(world.blobs)
    tell(world, "a", note="forget")
    append(store, world)
    late = WorldReader(early.folder, store, restore(store, world.state.world))
    world.kernel.admit(snapshot, world.stamp())
    world.run()
    append(store, world)

    reader = late if is_deleted_before_the_reader_begins else early
    reader.refresh()

    assert reader.state.cells.at == snapshot.at
    assert reader.state.cells.get(case("a")) is None
    assert [cell.id for cell in reader.state.cells.values()] == [case("b")]
