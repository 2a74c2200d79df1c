"""A journal that begins after a cut, and rows that are removed (RT-1 to RT-6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aos.core.journal.frame import Tip, follow
from aos.core.journal.merkle import Tree
from aos.errors import Damage, Pruned
from aos.store.cut import Archive, Cut
from aos.store.lmdb_store import LmdbStore
from aos.store.memory_store import MemoryStore
from aos.store.packs import PACKED_BYTES
from aos.store.rows import Forget, PutRow
from aos.store.store import first_kept
from aos.values.digests import content_hash
from tests.store.journal import CELL, WORLD, AnyStore, Journal, grown, put

DOCUMENT = content_hash(b"document")
LARGE = b"L" * PACKED_BYTES


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    made: AnyStore
    made = MemoryStore() if request.param == "memory" else LmdbStore.create(tmp_path / "store")
    yield made
    made.close()


def cut_after(journal: Journal, seq: int) -> Cut:
    tip = Tip(world=WORLD)
    for frame in journal.frames:
        tip = follow(tip, frame)
        if tip.seq == seq:
            archive = Archive(1, seq, "/a/b.aos")
            return Cut(
                seq=seq,
                frame=tip.frame,
                log=tip.log,
                document=DOCUMENT,
                genesis=journal.frames[0].records[0],
                archives=(archive,),
            )
    raise AssertionError(f"no frame ends with record {seq}")


def test_a_journal_that_was_never_pruned_has_no_cut(store: AnyStore) -> None:
    grown(store, 3)

    assert store.cut() is None
    assert first_kept(store) == 1
    assert store.drop_frames(10) == 0
    assert len(list(store.frames())) == 4


def test_records_before_the_cut_are_reported_to_be_in_its_archive(store: AnyStore) -> None:
    """RT-2: as soon as the cut is there, whatever still lies in the store."""
    journal = grown(store, 6)
    cut = cut_after(journal, 4)

    store.set_cut(cut)

    assert store.cut() == cut
    assert first_kept(store) == 5
    for seq in (2, 3, 4):
        with pytest.raises(Pruned) as caught:
            store.frame_at(seq)
        assert str(caught.value) == (
            f"record {seq} was pruned: expected a record after 4 "
            "(it is in the archive /a/b.aos, with records 1 to 4)"
        )
    for first, last in ((2, None), (3, 4), (4, 6)):
        with pytest.raises(Pruned):
            list(store.frames(first, last))
    assert list(store.frames(5)) == journal.frames[4:]
    assert store.frame_at(7) == journal.frames[6]
    assert store.frame_at(8) is None


def test_the_frame_of_the_genesis_stays(store: AnyStore) -> None:
    """RT-3."""
    journal = grown(store, 4)
    store.set_cut(cut_after(journal, 4))
    while store.drop_frames(2):
        pass

    assert store.frame_at(1) == journal.frames[0]
    assert list(store.frames(1, 1)) == journal.frames[:1]
    with pytest.raises(Pruned, match="record 2 was pruned"):
        list(store.frames())


def test_an_error_names_no_archive_when_the_cut_has_none(store: AnyStore) -> None:
    journal = grown(store, 3)
    store.set_cut(replace(cut_after(journal, 3), archives=()))

    with pytest.raises(Pruned, match=r"^record 2 was pruned: expected a record after 3$"):
        store.frame_at(2)


def test_frames_go_in_bounded_parts_and_their_notes_with_them(store: AnyStore) -> None:
    """RT-6."""
    journal = Journal()
    journal.genesis()
    put(store, journal)
    for _ in range(7):
        journal.event()
        seq = journal.event()
        journal.seal()
        group = journal.made[-1:]
        head = journal.head()
        store.append(group, head, expected=group[0].frame.header.prev, notes={seq: f"of {seq}"})
    store.set_cut(cut_after(journal, 11))

    gone = [store.drop_frames(2) for _ in range(4)]

    assert gone == [2, 2, 1, 0]
    assert [store.note(seq) for seq in (3, 5, 7, 9, 11)] == [None] * 5
    assert [store.note(seq) for seq in (13, 15)] == ["of 13", "of 15"]
    assert list(store.frames(12)) == journal.frames[6:]
    journal.event()
    journal.seal()
    put(store, journal)
    assert store.head() == journal.head()


def test_half_of_it_gone_is_the_same_to_who_reads(store: AnyStore) -> None:
    """RT-2, RT-6: a prune that was killed."""
    journal = grown(store, 6)
    store.set_cut(cut_after(journal, 5))

    for _ in range(4):
        with pytest.raises(Pruned, match="record 5 was pruned"):
            store.frame_at(5)
        assert list(store.frames(6)) == journal.frames[5:]
        store.drop_frames(1)


def test_a_real_gap_behind_the_cut_is_damage(tmp_path: Path) -> None:
    """ST-5."""
    with LmdbStore.create(tmp_path / "store") as store:
        journal = grown(store, 6)
        store.set_cut(cut_after(journal, 3))
        with store._environment.write(0) as txn:
            txn.delete((5).to_bytes(8, "big"), db=store._environment.tables["frames"])

        with pytest.raises(Damage, match="the frame with record 5 is missing"):
            list(store.frames(4))


def test_a_cut_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    with LmdbStore.create(tmp_path / "store") as store:
        journal = grown(store, 3)
        whole = cut_after(journal, 3).to_bytes()
        for data in (
            b"",
            b"\x80",
            whole[:-1],
            whole + b"\x00",
            whole.replace(b"/a/b", b"\xff\xff/b"),
        ):
            with store._environment.write(0) as txn:
                txn.put(b"cut", data, db=store._environment.tables["system"])
            with pytest.raises(Damage, match="the cut: it is"):
                store.cut()


def test_a_cut_is_written_and_read_back() -> None:
    cut = Cut(
        seq=2**40,
        frame=content_hash(b"f"),
        log=Tree.of([content_hash(bytes([n])) for n in range(11)]),
        document=DOCUMENT,
        genesis=b"record",
        archives=(Archive(1, 9, "a"), Archive(10, 2**40, "é")),
        is_done=True,
    )

    assert Cut.from_bytes(cut.to_bytes()) == cut
    assert cut.tip(WORLD) == Tip(world=WORLD, seq=2**40, frame=cut.frame, log=cut.log)


def test_rows_are_forgotten_and_missing_ones_are_skipped(store: AnyStore) -> None:
    """RT-6, RT-24."""
    journal = grown(store, 1)
    journal.event("one", value=b"v" * 3000)
    journal.event("two", value=LARGE)
    kept, gone = journal.step(intents=2)
    journal.erase(content_hash(b"w"))
    journal.seal()
    put(store, journal)
    before = list(store.blob_hashes())
    unknown = content_hash(b"unknown")

    store.forget(
        Forget(
            blobs=[content_hash(b"v" * 3000), content_hash(LARGE), unknown],
            intents=[gone, unknown],
            submissions=["one", "never"],
            erased=[content_hash(b"w")],
            snapshots=[77],
            puts=[b"none"],
        )
    )

    assert len(before) == 2
    assert list(store.blob_hashes()) == []
    assert not store.has_blob(content_hash(LARGE))
    assert [intent for intent, _ in store.intents()] == [kept]
    assert [row.submission_id for row in store.submissions()] == ["two"]
    assert list(store.erasures()) == []
    with pytest.raises(Damage, match="is missing"):
        store.blob(content_hash(LARGE))
    store.put_blobs({content_hash(LARGE): LARGE})
    assert store.blob(content_hash(LARGE)) == LARGE


def test_puts_are_kept_by_blob_and_record(store: AnyStore) -> None:
    """RT-14."""
    blobs = sorted(content_hash(bytes([n])) for n in range(3))
    rows = [PutRow(blob=blob, seq=seq, cell=CELL) for blob in blobs for seq in (5, 300)]

    store.add_puts(rows[::-1])
    store.add_puts(rows[:1])

    assert list(store.puts()) == rows
    store.forget(Forget(puts=[rows[2].key]))
    assert list(store.puts()) == [*rows[:2], *rows[3:]]


@pytest.mark.parametrize("data", [b"", b"\x82\x61a", b"\x82\x61a\x61b", b"\x81\x61a"])
def test_a_put_that_cannot_be_read_is_damage(data: bytes) -> None:
    with pytest.raises(Damage, match="a put's row"):
        PutRow.from_bytes(bytes(40), data)
    with pytest.raises(Damage, match="a put's row"):
        PutRow.from_bytes(bytes(39), PutRow(blob=DOCUMENT, seq=1, cell=CELL).to_bytes())


def test_the_beginning_of_a_blob_is_read_alone(store: AnyStore) -> None:
    small = b"small blob"
    store.put_blobs({content_hash(each): each for each in (small, LARGE)})

    assert store.first_bytes(content_hash(small), 5) == b"small"
    assert store.first_bytes(content_hash(small), 100) == small
    assert store.first_bytes(content_hash(LARGE), 7) == LARGE[:7]
    assert store.first_bytes(content_hash(b"none"), 7) is None


def test_a_compacted_store_keeps_its_cut_and_its_puts(tmp_path: Path) -> None:
    """ST-50."""
    with LmdbStore.create(tmp_path / "store") as store:
        journal = grown(store, 40, value=bytes(900))
        cut = cut_after(journal, 30)
        row = PutRow(blob=DOCUMENT, seq=7, cell=CELL)
        store.add_puts([row])
        store.set_cut(cut)
        while store.drop_frames(8):
            pass
        before = store.size_bytes()

        store.compact()

        assert store.size_bytes() < before
        assert (store.cut(), list(store.puts())) == (cut, [row])
        assert list(store.frames(31)) == journal.frames[30:]
