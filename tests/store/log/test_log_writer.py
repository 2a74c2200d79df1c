"""Writers: an acknowledged entry counts, once, after any fate of its messages
(spec/log.md, LG-30 to LG-36)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aos.errors import Damage
from aos.store.errors import Deposed
from aos.store.log.counting import CountedEntry
from aos.store.log.entry import LogEntry, parts_of
from aos.store.log.log import LogEndsEarly, LogMessage, LogUnreachable
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from tests.store.log.nodes import LogNode, blobs_after, frames_after
from tests.store.log.stories import WRITERS, check_story


def fated(stream: SharedStream, *fates: Fate) -> LogNode:
    """A node each of whose messages has the next of these fates; then all are answered."""
    remaining = list(fates)
    return LogNode(MemoryLog(stream, lambda: remaining.pop(0) if remaining else Fate.ANSWERED))


def test_an_entry_is_written_and_counts() -> None:
    stream = SharedStream()
    node = fated(stream)
    entry = frames_after(node.tip, b"1")

    counted = node.writer.append(entry)

    assert counted.entry == entry
    assert counted.last == stream.tail
    assert node.journal == [b"1"]


def written(node: LogNode, entry: LogEntry) -> CountedEntry:
    """Append an entry until that is answered, as the committer does (H-24)."""
    while True:
        try:
            return node.writer.append(entry)
        except LogUnreachable:
            continue


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("fate", [Fate.UNANSWERED, Fate.LOST, Fate.LATE])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_entry_without_an_answer_is_asked_for_again(  # LG-32
    checks: bool, fate: Fate, place: int
) -> None:
    stream = SharedStream(checks=checks)
    node = fated(stream, *[Fate.ANSWERED] * place, fate)
    entry = frames_after(node.tip, b"1")

    counted = written(node, entry)
    stream.arrive()
    node.read()

    assert counted.entry == entry
    assert node.journal == [b"1"]
    other = fated(stream)
    other.read()
    assert other.journal == [b"1"]


def test_a_deposed_writer_learns_it_and_writes_nothing_that_counts() -> None:  # LG-33
    stream = SharedStream()
    old, new = fated(stream), fated(stream)
    old.writer.append(frames_after(old.tip, b"1"))
    new.read()
    new.writer.append(frames_after(new.tip, b"start"))

    with pytest.raises(Deposed, match="records from 2 on"):
        old.writer.append(frames_after(old.tip, b"2"))
    with pytest.raises(Deposed):
        old.writer.append(frames_after(old.tip, b"3"))
    new.writer.append(frames_after(new.tip, b"2"))

    assert new.journal == [b"1", b"start", b"2"]


def test_an_entry_that_counted_before_another_owner_came_is_acknowledged() -> None:  # LG-33
    stream = SharedStream()
    old, new = fated(stream, *[Fate.UNANSWERED] * 20), fated(stream)
    entry = frames_after(old.tip, b"1")
    with pytest.raises(LogUnreachable):
        old.writer.append(entry)
    new.read()
    new.writer.append(frames_after(new.tip, b"start"))

    assert old.writer.append(entry).entry == entry
    with pytest.raises(Deposed):
        old.writer.append(frames_after(old.tip, b"2"))


def test_a_writer_goes_on_behind_garbage(  # LG-34
) -> None:
    stream = SharedStream()
    node = fated(stream)
    for number in range(5):
        for _ in range(number * 100):
            stream.publish(None)
        node.writer.append(frames_after(node.tip, b"%d" % number))

    assert len(node.journal) == 5
    assert node.counter.dead == 1000


def test_blobs_are_written_as_frames_are() -> None:
    stream = SharedStream()
    node = fated(stream, Fate.LOST)
    blobs = blobs_after(node.tip, b"a", b"b")
    written(node, blobs)
    node.writer.append(frames_after(node.tip, b"1"))

    assert (node.blobs, node.journal) == ([b"a", b"b"], [b"1"])


LOG_EXAMPLES = int(os.environ.get("AOS_LOG_EXAMPLES", "300"))


@settings(deadline=None, max_examples=LOG_EXAMPLES)
@given(
    actions=st.lists(
        st.tuples(
            st.integers(0, WRITERS - 1), st.sampled_from(("append", "read", "arrive", "noise"))
        ),
        max_size=40,
    ),
    fates=st.lists(st.sampled_from(list(Fate)), max_size=120),
    checks=st.booleans(),
    part_bytes=st.sampled_from((64, 200, 10_000)),
)
def test_any_interleaving_of_writers_gives_one_chain(  # LG-36
    actions: list[tuple[int, str]], fates: list[Fate], checks: bool, part_bytes: int
) -> None:
    check_story(actions, fates, checks=checks, part_bytes=part_bytes)


class BreakingLog(MemoryLog):
    """Its next readings end after so many messages, as with a lost connection."""

    breaks: tuple[int, ...] = ()

    def read(self, after: int) -> Iterator[LogMessage]:
        messages_max, *rest = self.breaks or (10**9,)
        self.breaks = tuple(rest)
        for count, message in enumerate(super().read(after)):
            if count == messages_max:
                raise LogUnreachable("the connection is lost")
            yield message


@pytest.mark.parametrize("breaks", [(1,), (2,), (3,), (1, 1), (3, 0, 0)])
def test_an_entry_that_was_found_before_the_reading_failed_is_acknowledged(  # LG-32
    breaks: tuple[int, ...],
) -> None:
    stream = SharedStream()
    fates = [Fate.UNANSWERED]
    log = BreakingLog(stream, lambda: fates.pop(0) if fates else Fate.ANSWERED)
    node = LogNode(log, part_bytes=10_000)
    entry = frames_after(node.tip, b"1")
    with pytest.raises(LogUnreachable):
        node.writer.append(entry)
    for _ in range(3):
        stream.publish(None)
    log.breaks = breaks

    counted = written(node, entry)

    assert counted.entry == entry
    assert node.journal == [b"1"]
    assert stream.tail == 4, "it was not written again"


def test_a_writer_that_asks_learns_that_it_is_deposed() -> None:  # LG-33
    stream = SharedStream()
    node, other = fated(stream), fated(stream)
    written(node, frames_after(node.tip, b"1"))
    node.writer.check_owns()
    other.read()
    written(other, blobs_after(other.tip, b"blob"))
    node.writer.check_owns()
    written(other, frames_after(other.tip, b"2"))
    for _ in range(2):
        with pytest.raises(Deposed):
            node.writer.check_owns()


@pytest.mark.parametrize("checks", [True, False])
def test_a_writer_whose_server_lags_writes_nothing_again(checks: bool) -> None:  # LG-35
    stream = SharedStream(checks=checks)
    node, other = fated(stream), fated(stream)
    assert isinstance(node.log, MemoryLog)
    for name in (b"1", b"2"):
        written(other, frames_after(other.tip, name))
    written_before = stream.tail
    node.log.lag = 1000
    entry = frames_after(node.tip, b"mine")
    with pytest.raises(LogUnreachable, match="does not show yet"):
        node.writer.append(entry)
    written_once = 0 if checks else len(parts_of(entry.to_bytes(), 64))
    assert stream.tail == written_before + written_once
    node.log.lag = 0

    with pytest.raises(Deposed):
        node.writer.append(entry)


def test_a_log_that_ends_before_what_was_read_is_reported() -> None:  # LG-35
    stream = SharedStream()
    node = fated(stream)
    written(node, frames_after(node.tip, b"1"))
    entry = frames_after(node.tip, b"2")
    stream.lose_end(1)
    tail = stream.tail
    for _ in range(3):
        with pytest.raises(LogEndsEarly):
            node.writer.append(entry)
    assert stream.tail == tail


def test_a_message_that_is_written_before_what_was_read_is_damage() -> None:  # LG-35
    stream = SharedStream(checks=False)
    node = fated(stream)
    written(node, frames_after(node.tip, b"1"))
    stream.lose_end(1)
    with pytest.raises(Damage, match="has lost what was acknowledged"):
        node.writer.append(frames_after(node.tip, b"2"))
