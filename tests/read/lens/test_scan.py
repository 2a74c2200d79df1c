"""Records are looked for by their bytes and read no further than needed (spec/audit.md, A-44)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from aos.core.journal.frame import Frame
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import EntryId, Receipt, Step
from aos.read.lens.record_finding import records_after, records_naming
from aos.read.trace.trace import trace
from aos.read.views.view import View
from aos.store.memory_store import MemoryStore
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.prove.journals import (
    LEDGER,
    ORDER,
    Shop,
    busy_shop,
    records,
    replaced,
    state_at,
    store_of,
)


@cache
def a_shop() -> Shop:
    """One world for all tests that do not change it."""
    return busy_shop()


class Counting(MemoryStore):
    """A store that counts the frames that are read in order."""

    def __init__(self, whole: MemoryStore) -> None:
        super().__init__()
        self.__dict__.update(whole.__dict__)
        self.read = 0

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        for frame in super().frames(first_seq, last_seq):
            self.read += 1
            yield frame


def test_every_entry_and_intent_is_found_where_it_is_taken() -> None:
    """A-44."""
    store = store_of(a_shop())
    for each in records(a_shop().frames):
        if isinstance(each, Step):
            assert each in list(records_after(store, 1, 28, {each.entry: None}, {}))
        if isinstance(each, Receipt):
            # Its own step names an intent, too.
            opened, settled = records_after(store, 1, 28, {}, {each.intent: None})
            assert (opened.seq < settled.seq, settled) == (True, each)


@pytest.mark.parametrize(
    "entry", [(0, 0), (23, 23), (24, 255), (256, 65_536), (2**32, 1), (2**63, 2**32 - 1)]
)
def test_an_entry_is_found_whatever_its_numbers(entry: EntryId) -> None:
    """A-44. Each width of a number in CBOR."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    step = next(each for each in world.records() if isinstance(each, Step))
    data = to_bytes(replaced(step, entry=entry))

    class One(MemoryStore):
        def frames(self, *_: object) -> Iterator[Frame]:
            yield Frame(header=world.frames[0].header, hash=Hash(b""), salt=b"", records=(data,))

    assert list(records_after(One(), 1, 9, {entry: None}, {})) == [from_bytes(data)]
    assert list(records_after(One(), 1, 9, {(entry[0], entry[1] + 1): None}, {})) == []


def test_a_value_that_looks_like_an_entry_hides_none() -> None:
    """A-44. The order's id is the bytes of another entry."""
    spoof = (encode("entry") + b"\x82\x01\x02").decode("latin-1")
    world = Shop()
    world.place(spoof, 5)
    world.run()

    found = list(records_after(store_of(world), 1, 9, {(4, 0): None}, {}))

    assert [each.seq for each in found] == [5]
    # A cut-off look-alike at the end of a record is no number.
    (root,) = trace(View(world.state, store_of(world)), ["4"]).roots
    assert root.children[0].seq == 5


def test_a_cell_is_found_wherever_it_is_named() -> None:
    """A-44, A-45."""
    store = store_of(a_shop())

    assert [each.seq for each in records_naming(store, (LEDGER, encode("c-1")), last=28)] == [
        10, 12, 25, 26, 27, 28,
    ]  # fmt: skip
    assert [each.seq for each in records_naming(store, (ORDER, encode("ord-4")), last=14)] == [14]


def test_a_trace_reads_no_further_than_something_may_come() -> None:
    """A-44."""
    whole = Counting(store_of(a_shop()))
    view = View(a_shop().state, whole)

    trace(view, ["4"])
    done = whole.read
    whole.read = 0
    trace(view, ["13"])

    assert done == 2
    assert whole.read == 3  # to the head: its intent is open


def test_a_trace_knows_nothing_of_what_came_after_its_state() -> None:
    """A-1. The journal may have grown since."""
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    then, store = state_at(world, world.state.next_seq - 1), store_of(world)
    traces = [trace(View(then, store), words) for words in (["4"], ["order", "ord-1"])]

    world.charged("ord-1")
    world.run()

    store = store_of(world)
    again = [trace(View(then, store), words) for words in (["4"], ["order", "ord-1"])]
    assert again == traces
    assert trace(View(world.state, store), ["4"]) != traces[0]
