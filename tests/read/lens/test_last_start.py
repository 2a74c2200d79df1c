"""The last ``start`` record is looked for from the end of a journal (spec/audit.md, A-61)."""

from __future__ import annotations

import pytest

from aos.core.journal.frame import Frame
from aos.core.journal.inputs import StartInput
from aos.core.journal.records import Start
from aos.read.lens import record_finding
from aos.read.lens.record_finding import Records, last_start
from aos.store.memory_store import MemoryStore
from tests.prove.journals import Shop, store_of

LOOKS_LIKE_ONE = "dkindestart"
"""Text whose bytes are the kind of a ``start`` record."""


class Counting(MemoryStore):
    """A store that counts the frames that are read one by one."""

    def __init__(self, whole: MemoryStore) -> None:
        super().__init__()
        self.__dict__.update(whole.__dict__)
        self.read = 0

    def frame_at(self, seq: int) -> Frame | None:
        self.read += 1
        return super().frame_at(seq)


def started(world: Shop, core: str) -> int:
    """Journal a start record, in a frame of its own, and return its number."""
    world.kernel.admit(StartInput(host=(("core", core),)), world.stamp())
    [record] = world.seal()
    return record.seq


def grown(world: Shop, records: int) -> int:
    """Let the world grow by so many records, each a frame, and return the number of the last."""
    for _ in range(records):
        world.place(LOOKS_LIKE_ONE, 5)
        world.seal()
    return world.state.next_seq - 1


def seqs(store: MemoryStore, lasts: range) -> list[int | None]:
    starts = [last_start(store, last) for last in lasts]
    return [None if start is None else start.seq for start in starts]


def test_the_last_start_up_to_a_record_is_found() -> None:
    world = Shop()
    first = grown(world, 2)
    starts = [started(world, "fast"), started(world, "python")]
    last = grown(world, 2)
    store = store_of(world)
    before = [seq for seq in range(1, first + 1) if isinstance(world.records()[seq - 1], Start)]

    assert seqs(store, range(starts[0], last + 1)) == [*starts, starts[1], starts[1]]
    assert seqs(store, range(first, first + 1)) == [before[-1] if before else None]
    assert last_start(store, starts[0], first=starts[0] + 1) is None
    assert last_start(store, last, first=starts[1] + 1) is None
    found = last_start(store, last)
    assert found is not None
    assert found.host == (("core", "python"),)


def test_a_view_reads_each_record_once_and_no_more_than_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_finding, "START_WITHIN", 4)
    world = Shop()
    world.seal()
    start = started(world, "fast")
    last = grown(world, 3)
    store = Counting(store_of(world))
    records = Records(store)

    found = [records.last_start(last) for _ in range(3)]

    assert [each and each.seq for each in found] == [start] * 3
    assert store.read == 4

    for seq in (grown(world, 1), grown(world, 1)):
        store.__dict__.update(store_of(world).__dict__)
        assert records.last_start(seq) is None  # as a view that was made now
        assert Records(store).last_start(seq) is None
    assert records.last_start(last) == found[0]
    newest = started(world, "python")
    store.__dict__.update(store_of(world).__dict__)
    assert records.last_start(newest) == last_start(store, newest)
