"""Guarantees of every store: the same tests over memory and LMDB (spec/store.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aos.core.journal.frame import NO_FRAME, Frame, Head, StoredFrame, Tip, follow
from aos.core.journal.records import Receipt
from aos.core.pending import Sealed, receipt_digest
from aos.errors import Damage, Erased, Unavailable
from aos.store.lmdb_store import LmdbStore
from aos.store.memory_store import MemoryStore
from aos.store.rows import ErasedRow, IntentRow
from aos.store.store import Store
from aos.values.digests import content_hash, hash_text
from tests.store.journal import (
    WORLD,
    WORLD_KEY,
    AnyStore,
    Journal,
    grown,
    put,
    receipt_name,
)


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    made: AnyStore
    made = MemoryStore() if request.param == "memory" else LmdbStore.create(tmp_path / "store")
    yield made
    made.close()


def test_both_are_stores(store: AnyStore) -> None:
    def a_store(store: Store) -> Store:
        return store

    assert a_store(store) is store


def test_an_empty_store_has_no_head_and_no_frames(store: AnyStore) -> None:
    assert store.head() is None
    assert list(store.frames()) == []
    assert store.frame_at(1) is None
    assert list(store.blob_hashes()) == []


def test_appended_frames_are_read_back(store: AnyStore) -> None:
    """ST-1."""
    journal = Journal()
    journal.genesis()
    journal.event(value=b"x" * 5000)
    journal.event()
    journal.seal()

    store.append(journal.made, journal.head(), expected=NO_FRAME)

    assert list(store.frames()) == journal.frames
    assert store.head() == journal.head()
    assert store.blob(content_hash(b"x" * 5000)) == b"x" * 5000
    tip = Tip(world=WORLD)
    for frame in store.frames():
        tip = follow(tip, frame)
    assert Head.of(tip).signed(WORLD_KEY) == store.head()


def test_a_frame_is_found_by_each_record_in_it(store: AnyStore) -> None:
    """ST-5."""
    journal = Journal()
    journal.genesis()
    for size in (1, 3, 1, 7):
        for _ in range(size):
            journal.event()
        journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)

    for frame in journal.frames:
        for seq in range(frame.header.first, frame.header.last + 1):
            assert store.frame_at(seq) == frame
    for seq in (-1, 0, 14, 2**63):
        assert store.frame_at(seq) is None


def test_a_range_begins_with_the_frame_that_holds_its_first_record(store: AnyStore) -> None:
    """ST-5."""
    journal = Journal()
    journal.genesis()
    for _ in range(5):
        journal.event()
        journal.event()
        journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)  # 1, 2-3, 4-5, 6-7, 8-9, 10-11

    def firsts(*range_: int) -> list[int]:
        return [frame.header.first for frame in store.frames(*range_)]

    assert firsts() == firsts(0) == firsts(-5) == [1, 2, 4, 6, 8, 10]
    assert firsts(2) == firsts(3) == [2, 4, 6, 8, 10]
    assert firsts(11) == [10]
    assert firsts(12) == []
    assert firsts(3, 3) == [2]
    assert firsts(3, 4) == [2, 4]
    assert firsts(4, 3) == []
    assert firsts(1, 2**63) == [1, 2, 4, 6, 8, 10]


def test_stored_frames_are_the_bytes_of_frames(store: AnyStore) -> None:
    journal = Journal()
    journal.genesis()
    for size in (1, 3, 30, 300):
        for _ in range(size):
            journal.event()
        journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)

    for first, last in ((1, 400), (3, 3), (30, 40), (400, 500)):
        frames = list(store.frames(first, last))
        assert list(store.stored_frames(first, last)) == [
            StoredFrame(frame.header.first, frame.header.last, frame.to_bytes()) for frame in frames
        ]


def test_frames_end_at_the_head_of_when_they_began(store: AnyStore) -> None:
    """ST-6: a reader comes to an end while a writer is busy."""
    journal = grown(store, 2)
    frames = store.frames()
    first = next(frames)

    journal.event()
    journal.seal()
    put(store, journal)

    assert [first, *frames] == journal.frames[:-1]


def test_many_frames_come_in_order(store: AnyStore) -> None:
    """ST-6: more than one slice of them."""
    journal = Journal()
    journal.genesis()
    for _ in range(200):
        journal.event()
        journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)

    assert list(store.frames()) == journal.frames
    assert [f.header.first for f in store.frames(100, 180)] == list(range(100, 181))


def test_a_group_must_follow_the_head(store: AnyStore) -> None:
    """ST-2: two writers cannot both believe that they are the only one."""
    journal = grown(store, 1)
    other = Journal(tip=journal.made[0].tip)
    other.start()
    other.seal()

    with pytest.raises(Damage) as caught:
        put(store, other)
    assert "the journal does not end where this process left it: expected frame " in str(
        caught.value
    )
    assert f"found frame {journal.tip.frame.hex()[:16]} at record 2" in str(caught.value)
    assert store.head() == journal.head()
    assert list(store.frames()) == journal.frames


def test_a_second_genesis_is_refused(store: AnyStore) -> None:
    """ST-2."""
    journal = grown(store, 0)
    again = Journal()
    again.start()
    again.seal()

    with pytest.raises(Damage, match="expected no frame, found frame"):
        put(store, again)
    assert list(store.frames()) == journal.frames


def test_a_first_frame_must_be_expected_as_first(store: AnyStore) -> None:
    """ST-2."""
    journal = Journal()
    journal.genesis()
    journal.event()
    journal.seal()

    with pytest.raises(Damage, match="found no frame at record 0"):
        put(store, journal)
    assert store.head() is None


def test_a_callers_obligations_are_asserted_before_anything_is_written(store: AnyStore) -> None:
    journal = grown(store, 1)
    head = journal.head()
    journal.event()
    one = journal.seal()
    journal.event()
    two = journal.seal()
    after = journal.head()
    expected = one.frame.header.prev

    with pytest.raises(AssertionError, match="an empty group"):
        store.append([], after, expected=expected)
    with pytest.raises(AssertionError, match="does not follow"):
        store.append([two, one], after, expected=expected)
    with pytest.raises(AssertionError, match="does not follow"):
        store.append([two], after, expected=expected)
    with pytest.raises(AssertionError, match="the head is not the last frame's"):
        store.append([one, two], head, expected=expected)
    with pytest.raises(AssertionError, match="the head is not the last frame's"):
        store.append([one], after, expected=expected)
    wrong = replace(two, blobs={content_hash(b"a"): b"b"})
    with pytest.raises(AssertionError, match="of another hash"):
        store.append([one, wrong], after, expected=expected)

    assert store.head() == head
    store.append([one, two], after, expected=expected)


def test_rows_of_intents_follow_the_records(store: AnyStore) -> None:
    """ST-30, ST-31."""
    journal = Journal()
    journal.genesis()
    journal.event()
    first, second, third = journal.step(intents=3)
    journal.seal()
    store.append(journal.made, journal.head(), expected=NO_FRAME)

    assert store.intent(second) == IntentRow(opened_seq=3, index=1)
    assert store.intent(content_hash(b"no such")) is None

    journal.receipt(second, abandoned=[first, third])
    made = journal.seal()
    put(store, journal)

    digest = made.settled[0].receipt
    assert store.intent(second) == IntentRow(
        opened_seq=3, index=1, settled_seq=4, receipt_digest=digest
    )
    assert store.intent(first) == IntentRow(opened_seq=3, index=0, abandoned=True)

    journal.receipt(first)
    made = journal.seal()
    put(store, journal)

    assert store.intent(first) == IntentRow(
        opened_seq=3,
        index=0,
        settled_seq=5,
        receipt_digest=made.settled[0].receipt,
        abandoned=True,
    )
    assert dict(store.intents()) == {
        each: store.intent(each) for each in sorted([first, second, third])
    }
    assert [hash for hash, _ in store.intents()] == sorted([first, second, third])


def test_an_intent_may_be_opened_and_abandoned_in_one_group(store: AnyStore) -> None:
    journal = Journal()
    journal.genesis()
    (intent,) = journal.step(intents=1)
    journal.seal()
    journal.step(abandoned=[intent])
    journal.seal()

    store.append(journal.made, journal.head(), expected=NO_FRAME)

    assert store.intent(intent) == IntentRow(opened_seq=2, index=0, abandoned=True)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("settles an unknown", "record 4 ends it, and no row says it was opened"),
        ("abandons an unknown", "record 4 ends it, and no row says it was opened"),
        ("settles twice", "record 5 settles it, and its row says 4 did"),
        ("opens twice", "record 3 opens it, and it has a row already"),
    ],
)
def test_rows_that_contradict_a_group_are_damage(store: AnyStore, what: str, message: str) -> None:
    """ST-32: nothing of the group is written."""
    journal = grown(store, 1)
    (intent,) = journal.step(intents=1)
    opened = journal.seal()
    unknown = content_hash(b"unknown")
    match what:
        case "settles an unknown":
            journal.receipt(unknown)
        case "abandons an unknown":
            journal.step(abandoned=[unknown])
        case "settles twice":
            journal.receipt(intent)
            journal.receipt(intent)
        case "opens twice":
            journal.event()
    last = journal.seal()
    if what == "opens twice":
        last = replace(last, opened_intents=opened.opened_intents)

    with pytest.raises(Damage) as caught:
        put(store, journal, opened, last)
    assert message in str(caught.value)
    assert store.intent(intent) is None
    head = store.head()
    assert head is not None
    assert head.seq == 2


def test_the_newest_event_under_a_submission_id_counts(store: AnyStore) -> None:
    """ST-30."""
    journal = Journal()
    journal.genesis()
    journal.event("a", b"\x01")
    journal.event("b" * 256, b"\x02")
    journal.seal()
    journal.event("a", b"\x03")
    last = journal.seal()

    store.append(journal.made, journal.head(), expected=NO_FRAME)

    found = store.submission("a")
    assert found is not None
    assert (found.seq, found.payload) == (4, last.submissions[0].payload)
    for absent in ("c", "", "x" * 512, "\ud800"):
        assert store.submission(absent) is None
    assert [(row.submission_id, row.seq) for row in store.submissions()] == [
        ("a", 4),
        ("b" * 256, 3),
    ]


@pytest.mark.parametrize("size", [0, 1, 1025, 4096, 5_000_000])
def test_a_blob_may_have_any_size(store: AnyStore, size: int) -> None:
    """ST-20."""
    data = bytes(size)
    store.put_blobs({content_hash(data): data})

    assert store.blob(content_hash(data)) == data
    assert store.has_blob(content_hash(data))
    assert store.blob_size(content_hash(data)) == size


def test_a_blob_that_is_not_there_is_damage(store: AnyStore) -> None:
    """ST-21."""
    absent = content_hash(b"absent")

    assert not store.has_blob(absent)
    assert store.blob_size(absent) is None
    with pytest.raises(Damage) as caught:
        store.blob(absent)
    assert f"blob {hash_text(absent)} is missing (no row says that it was erased" in str(
        caught.value
    )


def test_the_same_blob_twice_is_one(store: AnyStore) -> None:
    """ST-20."""
    key = content_hash(b"same")
    store.put_blobs({key: b"same"})
    store.put_blobs({key: b"same"})

    assert list(store.blob_hashes()) == [key]


def test_blobs_are_listed_ascending(store: AnyStore) -> None:
    blobs = {content_hash(bytes([n])): bytes([n]) for n in range(256)}
    many = {content_hash(str(n).encode()): str(n).encode() for n in range(2100)}
    store.put_blobs(blobs)
    store.put_blobs(many)

    assert list(store.blob_hashes()) == sorted({**blobs, **many})


BIG = b"personal " * 200
BIG_HASH = content_hash(BIG)


def test_a_value_that_a_record_erases_is_gone_with_its_frame(store: AnyStore) -> None:
    """ST-22: the bytes go, the frames stay, and a reader learns which record erased them."""
    journal = grown(store, 2, value=BIG)
    assert (store.blob(BIG_HASH), store.erased(BIG_HASH)) == (BIG, None)

    seq = journal.erase(BIG_HASH)
    journal.seal()
    put(store, journal)

    assert not store.has_blob(BIG_HASH)
    assert store.erased(BIG_HASH) == ErasedRow(seq=seq, size=len(BIG))
    assert list(store.erasures()) == [(BIG_HASH, ErasedRow(seq=seq, size=len(BIG)))]
    assert list(store.blob_hashes()) == []
    assert list(store.frames()) == journal.frames
    with pytest.raises(Erased) as caught:
        store.blob(BIG_HASH)
    assert str(caught.value) == f"the value {hash_text(BIG_HASH)} was erased by record {seq}"
    assert caught.value.exit_code == Damage.exit_code == 3


def test_an_erased_value_that_comes_again_is_there_again(store: AnyStore) -> None:
    """ST-23."""
    journal = grown(store, 1, value=BIG)
    journal.erase(BIG_HASH)
    journal.seal()
    put(store, journal)

    journal.event(value=BIG)
    journal.seal()
    put(store, journal)

    assert (store.blob(BIG_HASH), store.erased(BIG_HASH)) == (BIG, None)
    assert list(store.erasures()) == []

    seq = journal.erase(BIG_HASH)
    journal.seal()
    put(store, journal)
    assert store.erased(BIG_HASH) == ErasedRow(seq=seq, size=len(BIG))

    store.put_blobs({BIG_HASH: BIG})
    assert (store.blob(BIG_HASH), store.erased(BIG_HASH)) == (BIG, None)


@pytest.mark.parametrize("cut", ["one frame", "one group", "two groups"])
@pytest.mark.parametrize("again", [False, True], ids=["erased last", "comes again last"])
def test_the_order_of_records_decides_whether_an_erased_value_is_there(
    store: AnyStore, cut: str, again: bool
) -> None:
    """ST-22, ST-23: however frames and groups are cut."""
    journal = grown(store, 0)
    journal.event(value=BIG)
    if cut != "one frame":
        journal.seal()
    seq = journal.erase(BIG_HASH)
    if again:
        if cut != "one frame":
            journal.seal()
        journal.event(value=BIG)
    journal.seal()

    if cut == "two groups":
        for made in journal.made[1:]:
            store.append([made], _head_after(made), expected=made.frame.header.prev)
    else:
        put(store, journal, *journal.made[1:])

    assert store.has_blob(BIG_HASH) is again
    row = store.erased(BIG_HASH)
    if again:
        assert (row, store.blob(BIG_HASH)) == (None, BIG)
    else:
        # Within one frame the bytes were never stored, and their size was never known.
        assert row == ErasedRow(seq=seq, size=0 if cut == "one frame" else len(BIG))


def _head_after(made: Sealed) -> Head:
    return Head.of(made.tip).signed(WORLD_KEY)


def test_a_value_may_be_erased_twice_and_one_that_never_was_too(store: AnyStore) -> None:
    """ST-22: the newest record counts, and the size stays known."""
    journal = grown(store, 1, value=BIG)
    absent = content_hash(b"never there")
    journal.erase(BIG_HASH)
    journal.erase(absent)
    journal.seal()
    put(store, journal)
    first, second = journal.erase(absent), journal.erase(BIG_HASH)
    journal.seal()
    put(store, journal)

    assert store.erased(absent) == ErasedRow(seq=first, size=0)
    assert store.erased(BIG_HASH) == ErasedRow(seq=second, size=len(BIG))
    assert [hash for hash, _ in store.erasures()] == sorted([absent, BIG_HASH])


def test_nothing_is_erased_that_no_record_erases(store: AnyStore) -> None:
    """ST-22: a bug of the caller's, found before anything is written."""
    journal = grown(store, 1, value=BIG)
    journal.event()
    wrong = replace(journal.seal(), erased=(BIG_HASH,))

    with pytest.raises(AssertionError, match="no record of the frame says so"):
        put(store, journal, wrong)
    assert store.blob(BIG_HASH) == BIG


def test_compacting_changes_nothing_that_can_be_read(store: AnyStore) -> None:
    """ST-50."""
    journal = grown(store, 3, value=BIG)
    journal.event("name", b"x" * 3000)
    (intent,) = journal.step(intents=1)
    journal.erase(BIG_HASH)
    journal.seal()
    put(store, journal)
    store.meta_put("anchor", b"1")

    def everything() -> list[object]:
        return [
            store.head(),
            list(store.frames()),
            [(each, store.blob(each)) for each in store.blob_hashes()],
            list(store.intents()),
            list(store.submissions()),
            list(store.erasures()),
            store.meta_get("anchor"),
        ]

    before = everything()
    store.compact()
    assert everything() == before

    journal.receipt(intent)
    journal.seal()
    put(store, journal)
    assert list(store.frames()) == journal.frames


def test_notes_come_with_their_group_and_are_found_by_record(store: AnyStore) -> None:
    journal = grown(store, 1)
    journal.event()
    sealed = journal.seal()
    seq = sealed.frame.header.last
    expected = sealed.frame.header.prev
    store.append([sealed], journal.head(), expected=expected, notes={seq: "an engine says é"})

    assert store.note(seq) == "an engine says é"
    assert store.note(seq - 1) is None


def test_the_host_keeps_values_of_its_own(store: AnyStore) -> None:
    assert store.meta_get("anchor") is None
    store.meta_put("anchor", b"1")
    store.meta_put("anchor", b"2")
    store.meta_put("Ä" * 200, b"")

    assert store.meta_get("anchor") == b"2"
    assert store.meta_get("Ä" * 200) == b""


def test_a_closed_store_says_so(store: AnyStore) -> None:
    store.close()
    store.close()

    with pytest.raises(Unavailable, match="the store is closed"):
        store.head()
    with pytest.raises(Unavailable, match="the store is closed"):
        store.blob(content_hash(b""))
    with pytest.raises(Unavailable, match="the store is closed"):
        next(store.frames())
    with pytest.raises(Unavailable, match="the store is closed"):
        store.meta_put("a", b"")
    with pytest.raises(Unavailable, match="the store is closed"):
        store.erased(content_hash(b""))
    with pytest.raises(Unavailable, match="the store is closed"):
        store.compact()


def test_readers_in_other_threads_see_whole_groups_only(store: AnyStore) -> None:
    """ST-7: while one thread appends, others read a prefix that ends with a group."""
    journal = Journal()
    journal.genesis()
    put(store, journal)
    over = threading.Event()
    problems: list[str] = []
    reads = [0, 0]

    def read(reader: int) -> None:
        while not over.is_set():
            head = store.head()
            assert head is not None
            frames = list(store.frames())
            if frames[-1].header.last < head.seq or len(frames) % 2 == 0:
                problems.append(f"head {head.seq}, frames to {frames[-1].header.last}")
            reads[reader] += 1

    threads = [threading.Thread(target=read, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            pair = []
            for _ in range(2):
                journal.event()
                pair.append(journal.seal())
            put(store, journal, *pair)
    finally:
        over.set()
        for thread in threads:
            thread.join()

    assert problems == []
    assert min(reads) > 0


def test_upkeep_answers(store: AnyStore) -> None:
    before = store.size_bytes()
    grown(store, 3, value=bytes(100_000))

    assert store.sync_reader_check() == 0
    assert store.size_bytes() > before


def test_a_receipt_is_named_by_its_signature(store: AnyStore) -> None:
    """The rows hold the value that ``Pending`` computes; this test computes it independently."""
    journal = grown(store, 0)
    (intent,) = journal.step(intents=1)
    journal.seal()
    journal.receipt(intent)
    record = journal.records[-1]

    assert isinstance(record, Receipt)
    assert receipt_digest(record) == receipt_name(record)


def test_a_frame_that_says_it_is_elsewhere_is_damage_and_does_not_come_for_ever() -> None:
    """ST-5: the store on disk detects it by the key; a memory store may return another frame."""
    journal = Journal()
    journal.genesis()
    journal.event()
    journal.seal()

    class Misled(MemoryStore):
        def frame_at(self, seq: int) -> Frame | None:
            return super().frame_at(min(seq, 1))

    store = Misled()
    store.append(journal.made, journal.head(), expected=NO_FRAME)

    with pytest.raises(Damage, match="the frame with record 2 is missing"):
        list(store.frames())
