"""The dedup window is the same whether memory or the chunks of a snapshot hold it (SN-20 to SN-23).

The plain rule is an ordered dict: an event that is not a duplicate becomes the newest; entries
that are too old are removed first, then the oldest of those beyond the maximum.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.limits import LIMITS, Limits
from aos.core.state.submissions import Chunk, Submission, Submissions
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash
from tests.run_seed import examples

NAMES: Final = [f"id-{number}" for number in range(12)]
PAYLOAD: Final = content_hash(b"payload")


@dataclass
class Disk:
    """Chunks by hash, and the newest sequence under each id, as the derived rows have it."""

    blobs: dict[Hash, bytes] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    puts: int = 0
    limits: Limits = LIMITS

    def put(self, data: bytes) -> Hash:
        self.puts += 1
        self.blobs[content_hash(data)] = data
        return content_hash(data)

    def read(self, hash: Hash) -> bytes:
        if hash not in self.blobs:
            raise Damage(f"blob {hash.hex()} is missing")
        return self.blobs[hash]

    def open(self, chunks: tuple[Chunk, ...] = ()) -> Submissions:
        return Submissions(chunks, read=self.read, find=self.rows.get, limits=self.limits)


@dataclass(frozen=True)
class Came:
    """An event: its id, records before it, time since the last, and the limits then."""

    name: str
    gap: int
    after_ns: int
    dedup_ns: int
    most: int


class Window:
    """The plain rule and the window that must follow it."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.seq = self.clock = 0
        self.plain: OrderedDict[str, Submission] = OrderedDict()
        self.window = disk.open()

    def take(self, came: Came) -> None:
        self.seq += came.gap
        self.clock += came.after_ns
        oldest = self.clock - came.dedup_ns
        known = self.plain.get(came.name)
        assert self.window.get(came.name) == known
        if known is not None and known.at_ns >= oldest:
            # A duplicate, and no event.
            return
        event = Submission(self.seq, PAYLOAD, self.clock)
        self.window.remember(came.name, event, oldest_ns=oldest, count_max=came.most)
        self.disk.rows[came.name] = max(self.seq, self.disk.rows.get(came.name, 0))
        while self.plain and next(iter(self.plain.values())).at_ns < oldest:
            self.plain.popitem(last=False)
        self.plain[came.name] = event
        self.plain.move_to_end(came.name)
        while len(self.plain) > came.most:
            self.plain.popitem(last=False)

    def check(self) -> None:
        assert len(self.window) == len(self.plain)
        assert list(self.window.items()) == list(self.plain.items())
        assert list(self.window) == list(self.plain)

    def check_reads(self) -> None:
        for name in NAMES:
            assert self.window.get(name) == self.plain.get(name)

    def in_one_piece(self) -> Submissions:
        """The same window where all of it is in memory."""
        whole = Submissions(limits=self.disk.limits)
        for name, event in self.plain.items():
            whole.remember(name, event, oldest_ns=0, count_max=10**9)
        return whole


cames = st.builds(
    Came, st.sampled_from(NAMES), st.sampled_from([1, 1, 2, 5]), st.sampled_from([0, 0, 1, 9]),
    st.sampled_from([2, 10, 10, 1000]), st.sampled_from([1, 3, 8, 1000]),
)  # fmt: skip
doings: st.SearchStrategy[Any] = st.one_of(
    cames, cames, cames, st.sampled_from(["take", "rebase", "load", "read"])
)


@settings(max_examples=examples(25))
@given(st.lists(doings, min_size=30, max_size=80), st.sampled_from([1, 4, 16]))
def test_the_window_is_a_plain_one_whatever_holds_it(done: list[Any], chunk: int) -> None:
    both = Window(Disk(limits=Limits(chunk=chunk, chunks_held=1)))
    taken: tuple[int, int, tuple[Chunk, ...], OrderedDict[str, Submission]] | None = None
    since: list[Came] = []
    for each in done:
        match each:
            case Came():
                both.take(each)
                since.append(each)
            case "take":
                chunks = both.window.chunks(both.disk.put)
                assert chunks == both.in_one_piece().chunks(content_hash)
                taken, since = (both.seq, both.clock, chunks, both.plain.copy()), []
            case "rebase" if taken is not None:
                both.window.rebase(taken[2], taken[0])
            case "load" if taken is not None:
                plain = both.plain
                both.seq, both.clock, chunks, both.plain = *taken[:3], taken[3].copy()
                both.window = both.disk.open(chunks)
                for came in since:
                    _again(both, came)
                assert both.plain == plain
            case "read":
                both.check_reads()
            case _:
                pass
        both.check()
    both.check_reads()
    assert both.window == both.in_one_piece()
    assert both.window.chunks(content_hash) == both.in_one_piece().chunks(content_hash)


def _again(both: Window, came: Came) -> None:
    """Fold an event again, which asks for no id: the rows are newer than the place of the fold."""
    window, both.window = both.window, both.in_one_piece()
    both.take(came)
    newest = next(reversed(both.plain.values()), None)
    both.window = window
    if newest is not None and newest.seq == both.seq:
        oldest = both.clock - came.dedup_ns
        window.remember(came.name, newest, oldest_ns=oldest, count_max=came.most)


# Chunks


def filled(count: int, *, chunk: int) -> tuple[Disk, Submissions]:
    disk = Disk(limits=Limits(chunk=chunk))
    window = disk.open()
    for seq in range(1, count + 1):
        remember(disk, window, seq)
    return disk, window


def remember(disk: Disk, window: Submissions, seq: int, *, oldest_ns: int = 0) -> None:
    window.remember(
        f"id-{seq}", Submission(seq, PAYLOAD, seq), oldest_ns=oldest_ns, count_max=1_000_000
    )
    disk.rows[f"id-{seq}"] = seq


def test_a_chunk_has_the_events_of_its_sequences() -> None:
    """SN-21."""
    disk, window = filled(25, chunk=10)

    chunks = window.chunks(disk.put)

    assert [(each.number, each.count) for each in chunks] == [(0, 9), (1, 10), (2, 6)]
    assert decode_record(disk.blobs[chunks[2].hash]) == [
        [seq, f"id-{seq}", PAYLOAD, seq] for seq in range(20, 26)
    ]


def test_a_snapshot_writes_the_chunks_that_changed() -> None:
    disk, window = filled(95, chunk=10)
    window.rebase(window.chunks(disk.put), 95)
    disk.puts = 0

    assert [each.number for each in window.chunks(disk.put)] == list(range(10))
    assert disk.puts == 0
    for seq in (96, 97, 103):
        remember(disk, window, seq)
    assert [each.number for each in window.chunks(disk.put)] == list(range(11))
    assert disk.puts == 2


def test_after_a_rebase_only_what_came_since_is_in_memory() -> None:
    disk, window = filled(95, chunk=10)
    chunks = window.chunks(disk.put)
    remember(disk, window, 96)

    window.rebase(chunks, 95)

    assert list(window._recent) == ["id-96"]
    assert len(window) == 96
    assert window["id-12"] == Submission(12, PAYLOAD, 12)


def test_submissions_forgotten_while_a_snapshot_is_made_do_not_come_back() -> None:
    disk, window = filled(12, chunk=10)
    chunks = window.chunks(disk.put)
    remember(disk, window, 13, oldest_ns=12)

    window.rebase(chunks, 12)

    assert list(window) == ["id-12", "id-13"]
    assert window.get("id-11") is None
    assert window.get("id-3") is None
    assert [each.count for each in window.chunks(disk.put)] == [2]


def test_all_of_a_snapshot_may_be_forgotten_by_the_time_of_a_rebase() -> None:
    disk, window = filled(12, chunk=100)
    chunks = window.chunks(disk.put)
    remember(disk, window, 13, oldest_ns=13)

    window.rebase(chunks, 12)

    assert list(window) == ["id-13"]
    assert [(each.number, each.count) for each in window.chunks(disk.put)] == [(0, 1)]


def test_an_id_is_looked_up_in_one_chunk() -> None:
    disk, window = filled(95, chunk=10)
    chunks = window.chunks(disk.put)
    window = disk.open(chunks)
    kept = chunks[4]
    disk.blobs = {kept.hash: disk.blobs[kept.hash]}

    assert window["id-42"].seq == 42
    assert window.get("another") is None
    with pytest.raises(KeyError):
        window["another"]
    with pytest.raises(Damage, match="is missing"):
        window.get("id-51")


# Damage


def bad_chunks() -> Iterator[tuple[str, Value]]:
    good: list[Value] = [20, "a", PAYLOAD, 5]
    rows_of: dict[str, Value] = {
        "another's sequence": [19, "a", PAYLOAD, 5],
        "a later sequence": [30, "a", PAYLOAD, 5],
        "no number": ["20", "a", PAYLOAD, 5],
        "no id": [20, b"a", PAYLOAD, 5],
        "no hash": [20, "a", "text", 5],
        "a short hash": [20, "a", b"short", 5],
        "no time": [20, "a", PAYLOAD, None],
        "long": [*good, 1],
        "short": good[:-1],
        "null": None,
    }
    for name, row in rows_of.items():
        yield name, [row, [21, "b", PAYLOAD, 6]]
    yield "out of order", [[21, "b", PAYLOAD, 6], good]
    yield "twice", [good, good]
    yield "one too few", [good]
    yield "one too many", [good, [21, "b", PAYLOAD, 6], [22, "c", PAYLOAD, 6]]
    yield "a map", {"a": 1}


@pytest.mark.parametrize("rows", [pytest.param(rows, id=name) for name, rows in bad_chunks()])
def test_a_chunk_that_none_writes_is_damage(rows: Value) -> None:
    disk = Disk(rows={"b": 21}, limits=Limits(chunk=10))
    window = disk.open((Chunk(2, disk.put(encode(rows)), 2),))

    with pytest.raises(Damage, match="chunk 2 of the dedup window"):
        list(window.items())
    with pytest.raises(Damage, match="chunk 2 of the dedup window"):
        window.get("b")
    with pytest.raises(Damage):
        window.remember("c", Submission(31, PAYLOAD, 9), oldest_ns=1, count_max=10)


def test_a_chunk_that_is_no_cbor_is_damage() -> None:
    disk = Disk()
    window = disk.open((Chunk(0, disk.put(b"\x9f\xff"), 1),))

    with pytest.raises(Damage, match="a chunk of the dedup window is not canonical CBOR"):
        list(window)
