"""Which entries count: the rule, hostile messages, damage (spec/log.md, LG-10 to LG-16)."""

from __future__ import annotations

import pytest

from aos.core.journal.frame import Tip, seal
from aos.errors import Damage
from aos.store.log.entry import BlobsEntry, EntryPart, FramesEntry, parts_of
from aos.store.log.memory_log import MemoryLog, SharedStream
from aos.values.digests import content_hash
from tests.store.log.nodes import (
    KEY,
    OTHER_KEY,
    WORLD,
    LogNode,
    blobs_after,
    frames_after,
    stream_of,
)

ORIGIN = Tip(world=WORLD)


def behind(entry: FramesEntry, tip: Tip = ORIGIN) -> Tip:
    for frame in entry.frames:
        _, tip = seal(tip, frame.records, frame.salt)
    return tip


ONE = frames_after(ORIGIN, b"1", b"2")
TWO = frames_after(behind(ONE), b"3")


def read(stream: SharedStream) -> LogNode:
    node = LogNode(MemoryLog(stream))
    node.read()
    return node


def test_entries_that_follow_count() -> None:  # LG-11
    node = read(stream_of(ONE, TWO))

    assert node.journal == [b"1", b"2", b"3"]
    assert node.counter.dead == 0
    assert node.tip.frame == TWO.frames[-1].hash


def test_of_two_frames_on_one_tip_the_first_counts() -> None:  # LG-11
    rival = frames_after(behind(ONE), b"rival", salt=b"r" * 32)
    later = frames_after(behind(TWO, behind(ONE)), b"4")
    stream = stream_of(ONE, TWO, rival, later)

    node = read(stream)

    assert node.journal == [b"1", b"2", b"3", b"4"]
    assert node.counter.dead == len(parts_of(rival.to_bytes(), 64))
    assert node.counter.reason == "frames on an old tip"


def test_the_same_entry_twice_counts_once() -> None:  # LG-11
    assert read(stream_of(ONE, ONE, TWO, ONE, TWO)).journal == [b"1", b"2", b"3"]


def test_every_reader_finds_the_same_wherever_it_pauses() -> None:  # LG-11
    stream = stream_of(ONE, frames_after(ORIGIN, b"rival"), blobs_after(behind(ONE), b"b"), TWO)
    whole = read(stream)
    for pause in range(stream.tail + 1):
        log = MemoryLog(stream)
        log.lag = stream.tail - pause
        node = LogNode(log)
        node.read()
        # Another process continues from where this one was between two entries.
        node.counter.position = node.counter.whole_position
        node.counter._joining = None
        log.lag = 0
        node.read()
        assert (node.journal, node.blobs) == (whole.journal, whole.blobs)


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        EntryPart(content_hash(b"x"), 1, 1, b"x"),
        EntryPart(content_hash(b"x"), 1, 3, b"x"),
        EntryPart(content_hash(b"x"), 2, 3, b"x"),
        EntryPart(content_hash(b"y"), 1, 1, b"x"),
        EntryPart(content_hash(b""), 1, 1, b""),
        parts_of(ONE.to_bytes(), 64)[1],
        parts_of(TWO.to_bytes(), 64)[0],
    ],
)
def test_other_messages_are_dead_and_nothing_else(garbage: EntryPart | None) -> None:  # LG-12
    """Between entries they are passed over; inside of one they cut it, and it is written again."""
    parts = parts_of(ONE.to_bytes(), 64)
    for place in range(len(parts) + 1):
        stream = SharedStream()
        for part in parts[:place]:
            stream.publish(part)
        for _ in range(3):
            stream.publish(garbage)
        for entry in (parts[place:], parts, parts_of(TWO.to_bytes(), 64)):
            for part in entry:
                stream.publish(part)
        node = read(stream)
        assert node.journal == [b"1", b"2", b"3"], place
        assert node.counter.dead > 0


def test_ten_thousand_dead_messages_in_a_row() -> None:  # LG-12
    stream = stream_of(ONE)
    for _ in range(10_000):
        stream.publish(None)
    for part in parts_of(TWO.to_bytes(), 64):
        stream.publish(part)

    node = read(stream)

    assert node.journal == [b"1", b"2", b"3"]
    assert node.counter.dead == 10_000


def test_entries_of_another_key_are_dead() -> None:  # LG-11, LG-12
    foreign = frames_after(behind(ONE), b"foreign", key=OTHER_KEY)
    blobs = blobs_after(behind(ONE), b"foreign", key=OTHER_KEY)
    far = frames_after(behind(foreign, behind(ONE)), b"far", key=OTHER_KEY)
    node = read(stream_of(ONE, foreign, blobs, far, TWO))

    assert (node.journal, node.blobs) == ([b"1", b"2", b"3"], [])


def test_a_head_of_others_makes_no_frames_count() -> None:  # LG-11
    """Anyone can copy a signed head from the log."""
    forged = frames_after(behind(ONE), b"forged", key=OTHER_KEY)
    node = read(stream_of(ONE, FramesEntry(frames=forged.frames, head=TWO.head), TWO))

    assert node.journal == [b"1", b"2", b"3"]


def test_altered_frames_under_their_own_head_are_dead() -> None:  # LG-11
    frame = TWO.frames[0]
    altered = type(frame)(
        header=frame.header, hash=frame.hash, salt=frame.salt, records=(b"altered",)
    )
    node = read(stream_of(ONE, FramesEntry(frames=(altered,), head=TWO.head), TWO))

    assert node.journal == [b"1", b"2", b"3"]


def test_blobs_count_at_their_place_alone() -> None:  # LG-4, LG-11
    """A late copy of a slice brings no erased value back."""
    early, late = blobs_after(behind(ONE), b"early"), blobs_after(behind(ONE), b"late")
    node = read(stream_of(ONE, early, TWO, late, blobs_after(behind(TWO, behind(ONE)), b"now")))

    assert node.blobs == [b"early", b"now"]


def test_a_frame_on_one_that_this_reader_lacks_is_damage() -> None:  # LG-14
    """A damaged copy of the log made acknowledged history dead: its reader must not go on, and
    above all must not own the world."""
    stream = stream_of(ONE, TWO, frames_after(behind(TWO, behind(ONE)), b"4"))
    whole = read(stream)
    log = MemoryLog(stream)
    part = parts_of(TWO.to_bytes(), 64)[0]
    place = len(parts_of(ONE.to_bytes(), 64)) + 1
    log.damaged = {place: part._replace(data=b"\x00" + part.data[1:])}

    node = LogNode(log)
    with pytest.raises(Damage) as raised:
        node.read()

    assert "follows a frame which this journal lacks" in str(raised.value)
    assert node.journal == whole.journal[:2]


def test_a_damaged_copy_is_read_again_elsewhere(  # LG-13
) -> None:
    stream = stream_of(ONE, TWO)
    log = MemoryLog(stream, other=MemoryLog(stream))
    for position in (1, 2, stream.tail):
        part = stream.messages[position - 1]
        assert part is not None
        log.damaged[position] = part._replace(data=b"\xff" * len(part.data))

    node = LogNode(log)
    node.read()

    assert node.journal == [b"1", b"2", b"3"]
    assert node.counter.dead == 0


def test_frames_on_a_known_old_frame_are_dead_and_no_damage() -> None:  # LG-14
    """A deposed owner that is slow builds on a frame that counts, which is not the tip any more."""
    slow = frames_after(behind(FramesEntry(frames=ONE.frames[:1], head=ONE.head)), b"slow")
    node = read(stream_of(ONE, TWO, slow, frames_after(ORIGIN, b"origin")))

    assert node.journal == [b"1", b"2", b"3"]


def test_a_log_that_lost_its_end_is_damage_for_who_knows_more() -> None:  # LG-15
    third = frames_after(behind(TWO, behind(ONE)), b"4")
    stream = stream_of(ONE)
    node = LogNode(MemoryLog(stream))
    node.read()
    rewritten = stream_of(third)  # the entry between them is gone
    for part in rewritten.messages:
        stream.publish(part)

    with pytest.raises(Damage):
        node.read()


def test_a_gap_and_a_trim_are_damage() -> None:  # LG-16
    stream = stream_of(ONE, TWO)
    MemoryLog(stream).trim(3)
    with pytest.raises(Damage):
        read(stream)


def test_a_signed_entry_of_another_world_is_dead() -> None:  # LG-11
    other = Tip(world=content_hash(b"another world"))
    blobs = BlobsEntry.signed(other.world, other.frame, [b"x"], KEY)
    node = read(stream_of(frames_after(other, b"x"), blobs, ONE))

    assert (node.journal, node.blobs) == ([b"1", b"2"], [])
