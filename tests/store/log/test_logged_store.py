"""A store behind a log: order, restarts, lost answers, crashes (spec/log.md, LG-50 to LG-56)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aos.core.journal.frame import NO_FRAME, Head, Tip
from aos.core.pending import Sealed
from aos.errors import Damage
from aos.store.errors import Deposed, NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.log.counting import EntryCounter
from aos.store.log.entry import FramesEntry
from aos.store.log.log_writer import EntryWriter
from aos.store.log.logged_store import DeadMessages, LogAway, LogEnd, LoggedStore, LogPlace
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.store.journal import WORLD, WORLD_KEY, Journal

STREAM = "shop-1"


class Owner:
    """A world's owner: a store on a log, and the journal that it has made."""

    def __init__(self, folder: Path, stream: SharedStream, *fates: Fate) -> None:
        remaining = list(fates)
        self.log = MemoryLog(stream, lambda: remaining.pop(0) if remaining else Fate.ANSWERED)
        self.folder = folder
        self.journal = Journal()
        self.store = LoggedStore.create(folder)
        self.store.begin(STREAM)
        self.follows: Hash = NO_FRAME
        self.connect(Tip(world=WORLD))

    def connect(self, tip: Tip) -> None:
        self.store.connect(self.log, stream=STREAM, tip=tip, key=WORLD_KEY, part_bytes=512)

    def open_again(self) -> None:
        """As after a kill: nothing but the folder and the journal's tip is left."""
        self.store.close()
        self.store = LoggedStore.open(self.folder)
        self.connect(self.journal.tip)

    def group(self, *names: str) -> tuple[list[Sealed], Head]:
        """One frame with an event for each name; the first one is the genesis."""
        group: list[Sealed] = []
        if self.journal.tip.seq == 0:
            group.append(self.journal.genesis())
        for name in names:
            self.journal.event(name, value=name.encode() * 100)
            group.append(self.journal.seal())
        return group, Head.of(self.journal.tip).signed(WORLD_KEY)

    def append(self, group: Sequence[Sealed], head: Head) -> None:
        """Append until that is answered, as the committer does."""
        while True:
            try:
                self.store.append(group, head, expected=self.follows, notes={1: "words"})
            except LogAway:
                continue
            self.follows = head.frame
            return

    def write(self, *names: str) -> None:
        self.append(*self.group(*names))


def read(stream: SharedStream) -> tuple[list[bytes], set[bytes]]:
    """The records and blobs that count."""
    counter = EntryCounter(
        tip=Tip(world=WORLD), world_key=WORLD_KEY.verify_key.encode(), position=0,
        log=MemoryLog(stream), frame_at=lambda _: None,
    )  # fmt: skip
    records: list[bytes] = []
    blobs: set[bytes] = set()
    for counted in counter.counted():
        blobs.update(counted.entry.blobs)
        if isinstance(counted.entry, FramesEntry):
            records += [record for frame in counted.entry.frames for record in frame.records]
    return records, blobs


def stored(store: LmdbStore) -> list[bytes]:
    return [record for frame in store.frames() for record in frame.records]


def test_the_store_has_what_counts_and_its_place(tmp_path: Path) -> None:  # LG-50
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a", "b")
    owner.store.put_blobs({content_hash(b"slice"): b"slice"})
    owner.write("c")

    records, blobs = read(stream)
    assert stored(owner.store) == records
    assert {b"slice", b"a" * 100, b"c" * 100} >= {b"slice"} <= blobs
    assert all(owner.store.blob(content_hash(blob)) == blob for blob in blobs)
    place = owner.store.place
    assert place is not None
    assert (place.stream, place.position) == (STREAM, stream.tail)
    assert owner.store.note(1) == "words"


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("fate", list(Fate))
def test_lost_late_and_doubled_messages_change_nothing(
    tmp_path: Path, fate: Fate, checks: bool
) -> None:  # LG-51
    stream = SharedStream(checks=checks)
    fates = [Fate.ANSWERED, fate, Fate.ANSWERED, fate, fate]
    owner = Owner(tmp_path / "store", stream, *fates)
    for name in ("a", "b", "c", "d"):
        owner.write(name)
        stream.arrive()
    owner.open_again()
    owner.write("e")

    records, _ = read(stream)
    assert stored(owner.store) == records
    assert len(records) == 6


def test_a_store_that_fails_behind_the_log_takes_the_same_group_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # LG-52
    """It counts in the log, so it is not written there a second time."""
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    group, head = owner.group("b")

    def full(*_: object, **__: object) -> None:
        raise NoRoom("the disk is full", needed_bytes=1, free=0)

    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "append", full)
        with pytest.raises(NoRoom):
            owner.store.append(group, head, expected=owner.follows)
    tail = stream.tail
    owner.store.append(group, head, expected=owner.follows)

    assert stream.tail == tail
    assert stored(owner.store) == read(stream)[0]


def test_blobs_that_count_are_stored_before_the_place_moves_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # LG-52
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")

    def full(*_: object, **__: object) -> None:
        raise NoRoom("the disk is full", needed_bytes=1, free=0)

    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "put_blobs", full)
        with pytest.raises(NoRoom):
            owner.store.put_blobs({content_hash(b"slice"): b"slice"})
    owner.write("b")

    assert owner.store.blob(content_hash(b"slice")) == b"slice"
    owner.open_again()
    owner.write("c")
    assert stored(owner.store) == read(stream)[0]


def test_blobs_whose_answer_is_lost_may_be_given_up(tmp_path: Path) -> None:  # LG-51
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    owner.log.is_away = True
    with pytest.raises(LogAway):
        owner.store.put_blobs({content_hash(b"slice"): b"slice"})
    owner.log.is_away = False
    owner.write("b")

    assert stored(owner.store) == read(stream)[0]


def test_a_deposed_owner_stores_nothing_more(tmp_path: Path) -> None:  # LG-54
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    counter = EntryCounter(
        tip=Tip(world=WORLD), world_key=WORLD_KEY.verify_key.encode(), position=0,
        log=MemoryLog(stream), frame_at=lambda _: None,
    )  # fmt: skip
    list(counter.counted())
    other = Journal(tip=owner.journal.tip)
    other.start()
    sealed = other.seal()
    head = Head.of(other.tip).signed(WORLD_KEY)
    EntryWriter(MemoryLog(stream), counter).append(FramesEntry(frames=(sealed.frame,), head=head))
    before = stored(owner.store)

    with pytest.raises(Deposed):
        owner.write("b")

    assert stored(owner.store) == before
    assert owner.store.place is not None
    assert owner.store.place.position < stream.tail


def test_an_owner_that_died_between_log_and_store_reads_on_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # LG-55
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    before = owner.journal.tip
    group, head = owner.group("b")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            owner.store.append(group, head, expected=owner.follows)
    owner.store.close()
    owner.store = LoggedStore.open(owner.folder)
    owner.connect(before)
    owner.journal = Journal(tip=before)

    with pytest.raises(Deposed):
        owner.write("c")

    assert stored(owner.store) == read(stream)[0][:2], "nothing was written over what counts"


@pytest.mark.parametrize("harm", ["lost", "other", "anew"])
def test_a_log_that_lost_what_the_store_has_is_refused(tmp_path: Path, harm: str) -> None:  # LG-53
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    owner.write("b")
    if harm == "lost":
        stream.lose_end(stream.tail - 1)
    elif harm == "other":
        stream.messages[-1] = None
    else:
        other = SharedStream()
        Owner(tmp_path / "other", other).write("x", "y", "z", "u", "v", "w")
        stream.messages[:] = other.messages
    tail = stream.tail

    with pytest.raises(Damage):
        owner.open_again()

    assert stream.tail == tail


def test_a_store_of_another_log_is_refused(tmp_path: Path) -> None:  # LG-53
    owner = Owner(tmp_path / "store", SharedStream())
    with pytest.raises(Damage, match="another log"):
        owner.store.connect(owner.log, stream="shop-2", tip=owner.journal.tip, key=WORLD_KEY)
    plain = LoggedStore.create(tmp_path / "plain")
    with pytest.raises(Damage, match="another log"):
        plain.connect(owner.log, stream=STREAM, tip=owner.journal.tip, key=WORLD_KEY)
    plain.close()


def test_the_store_keeps_the_number_of_dead_messages_and_the_last_reason(tmp_path: Path) -> None:
    """CL-170: a restart, or a message behind the place, counts none of them twice."""
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    assert owner.store.dead_messages == DeadMessages()
    for expected in (2, 4, 6):
        stream.publish(None)
        owner.open_again()
        stream.publish(None)
        assert owner.store.dead_messages.number == expected - 2
        owner.write(f"b{expected}")
        assert owner.store.dead_messages.number == expected
        assert owner.store.dead_messages.reason == "a message that is no part of an entry"
    for data in (b"", b"\x80", DeadMessages(number=1).to_bytes()[:-1], encode([-1, None])):
        with pytest.raises(Damage, match="the number of dead messages"):
            DeadMessages.from_bytes(data)


def test_an_end_has_one_form() -> None:
    end = LogEnd(position=7, seq=12, frame=content_hash(b"frame"))
    assert LogEnd.from_bytes(end.to_bytes()) == end
    for data in (b"", b"\x80", b"\x83\x01\x02\x41x", b"\x83\x20\x02\x41x"):
        with pytest.raises(Damage):
            LogEnd.from_bytes(data)


def test_the_end_is_that_of_the_last_entry_that_is_stored(tmp_path: Path) -> None:
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    end = owner.store.end
    assert (end.position, end.seq, end.frame) == (
        stream.tail, owner.journal.tip.seq, owner.journal.tip.frame,
    )  # fmt: skip
    owner.store.put_blobs({content_hash(b"slice"): b"slice"})
    assert owner.store.end == replace(end, position=stream.tail)
    owner.open_again()
    assert owner.store.end == replace(end, position=stream.tail)


def test_a_place_has_one_form() -> None:
    for place in (
        LogPlace(stream="s"), LogPlace(stream="s", position=7, entry=content_hash(b"x")),
    ):  # fmt: skip
        assert LogPlace.from_bytes(place.to_bytes()) == place
    for data in (b"", b"\x80", b"\x83\x61s\x01\xf6", b"\x83\x61s\x00\x41x"):
        with pytest.raises(Damage):
            LogPlace.from_bytes(data)


def test_a_late_copy_of_frames_of_the_next_owner_is_dead_for_the_deposed_one(
    tmp_path: Path,
) -> None:  # LG-12, LG-14
    """Its store has none of those frames, and it knows that they count."""
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    counter = EntryCounter(
        tip=Tip(world=WORLD), world_key=WORLD_KEY.verify_key.encode(), position=0,
        log=MemoryLog(stream), frame_at=lambda _: None,
    )  # fmt: skip
    list(counter.counted())
    other = Journal(tip=owner.journal.tip)
    writer = EntryWriter(MemoryLog(stream), counter)
    tail = stream.tail
    for _ in range(3):
        other.start()
        sealed = other.seal()
        head = Head.of(other.tip).signed(WORLD_KEY)
        writer.append(FramesEntry(frames=(sealed.frame,), head=head))
    for part in stream.messages[tail + 1 :]:
        stream.publish(part)

    for _ in range(2):
        with pytest.raises(Deposed):
            owner.write("b")


@pytest.mark.parametrize("fills", [0, 1, 2])
def test_a_log_that_lost_its_end_is_found_once_the_connection_was_lost(
    tmp_path: Path, fills: int
) -> None:  # LG-57
    """Also if other messages have filled it again to where it was."""
    stream = SharedStream()
    owner = Owner(tmp_path / "store", stream)
    owner.write("a")
    stream.lose_end(stream.tail - 1)
    for _ in range(fills):
        stream.publish(None)
    tail = stream.tail
    owner.log.disconnect()
    group, head = owner.group("b")
    with pytest.raises(LogAway):
        owner.store.append(group, head, expected=owner.follows)

    with pytest.raises(LogAway if fills == 0 else Damage, match=r"ends before|another entry"):
        owner.store.append(group, head, expected=owner.follows)

    assert stream.tail == tail
    with pytest.raises(LogAway if fills == 0 else Damage):
        owner.store.append(group, head, expected=owner.follows)
    assert stream.tail == tail
    assert (owner.store.early_end.span_ns > 0) == (fills == 0)
