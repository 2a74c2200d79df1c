"""A base has the rows of a store, and nothing older is removed before it is named (spec/cluster.md,
CL-130 to CL-137)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.journal.frame import Tip, follow
from aos.errors import AosError, Damage, Erased, Refused
from aos.host.cluster import base
from aos.host.cluster.base import (
    ABANDONED_NS,
    WorldServers,
    is_leftover,
    make_base,
    needs_base,
    open_erasure,
    write_stream,
)
from aos.host.cluster.registration import BaseRef
from aos.store.cut import Cut
from aos.store.environment import HOME_KEY
from aos.store.lmdb_store import LmdbStore
from aos.store.log import base_stream, patience
from aos.store.log.base_stream import BaseEnd, BaseReader, HalfBase
from aos.store.log.entry import parts_of
from aos.store.log.log import LogTrimmed, LogUnreachable
from aos.store.log.logged_store import LogEnd, LogPlace
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from aos.store.row_copy import META, SYSTEM, StoredRow
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import PART_BYTES, WORLD
from tests.host.cluster.replicated import (
    KEY,
    NAME,
    Kill,
    Killed,
    Replicated,
    replicated,
    rows_of,
    value_of,
)
from tests.memory_world import WORLD_KEY


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicated]:
    monkeypatch.setattr(base_stream, "GROUP_BYTES", 4000)
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)
    with replicated(tmp_path) as world:
        yield world


def made(rig: Replicated, servers: WorldServers | None = None) -> BaseRef:
    return make_base(servers or rig.servers(), NAME, rig.owner.store, WORLD_KEY).base


def rows_in(rig: Replicated, stream: str) -> list[StoredRow]:
    log = rig.servers().streams.log(stream)
    return list(BaseReader(log, KEY).rows())


def filled(folder: Path, rows: list[StoredRow]) -> LmdbStore:
    store = LmdbStore.create(folder)
    store.put_rows(rows)
    return store


def test_a_base_has_every_row_but_those_of_one_machine(rig: Replicated, tmp_path: Path) -> None:
    rig.owner.store.settle()  # CL-130
    rig.owner.store.meta_put("place", b"here")
    rows = rows_in(rig, made(rig).stream)

    assert not any(row.table == META or row.key == HOME_KEY for row in rows)
    with filled(tmp_path / "copy", rows) as copy:
        assert rows_of(copy) == rows_of(rig.owner.store)
        with pytest.raises(Erased):
            copy.blob(value_of("k0"))
        assert copy.note(2) == rig.owner.store.note(2)


def test_a_base_of_a_pruned_journal_begins_where_that_does(rig: Replicated, tmp_path: Path) -> None:
    """Frames that were pruned and not removed yet are no part of it."""
    store = rig.owner.store
    row = store.snapshot_before()
    assert row is not None
    frames = list(store.frames())
    tip = Tip(world=WORLD)
    for frame in frames:
        if frame.header.last <= row.at:
            tip = follow(tip, frame)
    store.set_cut(
        Cut(seq=row.at, frame=tip.frame, log=tip.log, document=row.document,
            genesis=frames[0].records[0], archives=())
    )  # fmt: skip

    rows = rows_in(rig, made(rig).stream)

    with filled(tmp_path / "copy", rows) as copy:
        assert rows_of(copy) == rows_of(store)
    kept = [row for row in rows if row.table == "frames"]
    assert len(kept) == sum(frame.header.first > row.at for frame in frames)


def test_the_log_is_trimmed_to_the_base_and_its_last_entry_stays(rig: Replicated) -> None:
    place, first = rig.owner.store.end.position, made(rig)  # CL-134, CL-135
    assert first.end == rig.owner.store.end
    assert rig.log.first == place
    rig.events("more")
    second = make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY)
    assert second.is_new
    assert second.removed == (first.stream,)
    assert rig.bases() == [second.base.stream] == [rig.registration().base.stream]  # type: ignore[union-attr]
    with pytest.raises(LogTrimmed):
        list(MemoryLog(rig.log).read(place - 1))
    again = make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY)
    assert (again.base, again.is_new, again.removed) == (second.base, False, ())


def check_state(rig: Replicated, older: BaseRef) -> None:
    """At any point, the registration names a whole base, and the log continues it."""
    named = rig.registration().base
    assert named is not None
    end = BaseReader(rig.servers().streams.log(named.stream), KEY).check()
    assert end.end == named.end
    assert rig.log.first <= max(1, named.end.position)
    assert named.end.position >= older.end.position


def test_a_kill_at_any_point_leaves_a_world_that_can_be_joined(rig: Replicated) -> None:
    older = made(rig)  # CL-133
    rig.events("more")
    kill = Kill()
    complete = rig.copy()
    newest = made(complete, complete.servers(kill)).end
    assert kill.count > 15
    for at in range(1, kill.count + 1):
        killed = rig.copy()
        with pytest.raises(Killed):
            made(killed, killed.servers(Kill(at)))
        check_state(killed, older)

        killed.streams.now_ns = lambda: ABANDONED_NS + 1
        assert made(killed).end == newest
        assert killed.bases() == [killed.registration().base.stream]  # type: ignore[union-attr]
        assert killed.log.first == newest.position


@pytest.mark.parametrize("seed", range(6))
def test_lost_late_and_doubled_messages_spoil_no_base(
    rig: Replicated, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # a test
    fates = (Fate.ANSWERED, Fate.ANSWERED, Fate.ANSWERED, Fate.LOST, Fate.UNANSWERED, Fate.LATE)
    monkeypatch.setattr(base_stream, "GROUP_BYTES", 500_000)
    servers = rig.servers(fate=lambda: chance.choice(fates))
    servers.streams._part_bytes = 100_000  # type: ignore[attr-defined]
    assert made(rig, servers).end == rig.owner.store.end
    [stream] = rig.bases()
    for _ in range(len(rig.streams.streams[stream].late)):
        rig.streams.streams[stream].arrive()
    assert rows_in(rig, stream)


def test_a_base_that_is_not_what_was_written_is_never_named(rig: Replicated) -> None:
    """Another program writes to its stream, and the servers do not check positions."""
    before = rig.registration()

    def disturb(_: str) -> None:
        for name in rig.bases():
            stream = rig.streams.streams[name]
            if stream.tail and stream.checks:
                stream.checks = False
                stream.publish(None)

    with pytest.raises(AosError):
        made(rig, rig.servers(disturb))
    assert rig.registration() == before
    assert rig.bases() == []
    assert rig.log.first == 1


def test_servers_that_do_not_answer_are_waited_for_and_then_reported(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)
    servers = rig.servers()
    servers.streams.is_away = True  # type: ignore[attr-defined]
    with pytest.raises(LogUnreachable):
        made(rig, servers)


def test_an_older_base_never_takes_the_place_of_a_newer_one(rig: Replicated) -> None:
    servers = rig.servers()  # CL-134
    older = write_stream(servers.streams, rig.owner.store, WORLD_KEY)
    rig.events("more")
    newer = made(rig)

    registration = base._named(servers, rig.registration(), older, WORLD_KEY)

    assert registration.base == newer == rig.registration().base


def test_a_base_that_was_purged_or_removed_is_made_again(rig: Replicated) -> None:  # CL-134
    for spoil in (
        rig.streams.streams.pop,
        lambda name: rig.streams.streams[name].messages.pop(),
        lambda name: setattr(rig.streams.streams[name], "first", 2),
    ):
        former = made(rig)
        spoil(former.stream)
        newer = make_base(rig.servers(), NAME, rig.owner.store, WORLD_KEY)
        assert newer.is_new
        assert newer.base.end == former.end
        assert rows_in(rig, newer.base.stream)
    older = replace(rig.registration(), base=replace(newer.base, end=replace(
        newer.base.end, position=newer.base.end.position + 1)))  # fmt: skip
    value = older.signed(WORLD_KEY).to_bytes()
    rig.bucket.rows[NAME] = rig.bucket.rows[NAME]._replace(value=value)
    rig.streams.streams.pop(newer.base.stream)
    with pytest.raises(Refused, match="this folder is older than it"):
        made(rig)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_log_that_has_lost_its_end_is_not_trimmed(rig: Replicated, is_replaced: bool) -> None:
    """CL-134: the position of the trim would be given again, and the loss would not be seen."""
    before = made(rig)
    rig.events("more")
    log = rig.log
    log.lose_end(log.tail - 1)
    if is_replaced:
        log.publish(None)
    with pytest.raises(Damage, match=r"has lost what was ack|has another entry at the place"):
        made(rig)
    assert rig.registration().base == before
    assert log.first == before.end.position


def test_a_base_of_an_earlier_log_is_refused(rig: Replicated) -> None:
    entry = rig.registration()
    moved = replace(entry, stream="AOS-other").signed(WORLD_KEY)
    rig.bucket.rows[NAME] = rig.bucket.rows[NAME]._replace(value=moved.to_bytes())
    with pytest.raises(Refused, match="not of the log of the world"):
        made(rig)


END = BaseEnd(
    world=WORLD, place=LogPlace(stream="AOS-1", position=7, entry=content_hash(b"e")),
    seq=3, frame=content_hash(b"f"), rows=1, hash=content_hash(b"h"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("position", "idle_ns", "leftover"),
    [
        (6, 0, True), (7, 0, True), (8, 0, False), (8, ABANDONED_NS, True),
        (None, 0, False), (None, ABANDONED_NS - 1, False), (None, ABANDONED_NS, True),
    ],
)  # fmt: skip
def test_only_a_base_without_a_maker_is_removed(
    rig: Replicated, position: int | None, idle_ns: int, leftover: bool
) -> None:
    named = BaseRef(stream="AOS-BASE-1", end=LogEnd(position=7, seq=3, frame=END.frame))
    registration = replace(rig.registration(), stream="AOS-1", base=named)
    end = None if position is None else replace(END, place=replace(END.place, position=position))
    assert is_leftover(end, idle_ns, registration) is leftover
    assert not is_leftover(end, idle_ns, replace(registration, base=None))
    other = None if end is None else replace(end, place=replace(end.place, stream="AOS-2"))
    assert is_leftover(other, 0, registration) is False


def test_a_base_is_made_when_the_log_has_grown(
    rig: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-136
    streams = rig.servers().streams
    position = rig.owner.store.end.position
    assert not needs_base(streams, rig.registration(), position)
    size = streams.size_bytes(rig.registration().stream)
    monkeypatch.setattr(base, "BASE_BYTES", size)
    assert needs_base(streams, rig.registration(), position)
    made(rig)
    assert not needs_base(streams, rig.registration(), position)
    assert not needs_base(streams, rig.registration(), position + 1)
    assert needs_base(streams, rig.registration(), position + 1, log_bytes=1)
    monkeypatch.setattr(base, "BASE_BYTES", 1)
    assert not needs_base(streams, rig.registration(), position), "the base is as new as this node"


def test_an_erasure_is_done_when_nothing_older_is_kept(rig: Replicated) -> None:  # CL-137
    streams = rig.servers().streams
    erased = next(iter(rig.owner.store.erasures()))[1].seq
    assert "aos cluster base" in str(open_erasure(streams, rig.registration(), erased))
    first = made(rig)
    assert open_erasure(streams, rig.registration(), erased) is None
    rig.log.first = 1
    assert "not trimmed" in str(open_erasure(streams, rig.registration(), erased))
    rig.log.first = first.end.position
    rig.streams.streams[f"{first.stream}0"] = SharedStream()
    assert "another base" in str(open_erasure(streams, rig.registration(), erased))


# Streams that are no base


def entries(stream: SharedStream) -> list[bytes]:
    """The entries of a base."""
    joined, parts = list[bytes](), list[bytes]()
    for part in stream.messages:
        assert part is not None
        parts.append(part.data)
        if part.number == part.total:
            joined.append(b"".join(parts))
            parts = []
    return joined


def stream_of(datas: list[bytes]) -> MemoryLog:
    stream = SharedStream()
    for part in itertools.chain.from_iterable(parts_of(data, PART_BYTES) for data in datas):
        stream.publish(part)
    return MemoryLog(stream)


def signed_with(data: bytes, key: SigningKey) -> bytes:
    *fields, _ = fields_of(data)
    return encode([*fields, key.sign(encode(fields)).signature])


def fields_of(data: bytes) -> list[Value]:
    value = decode_record(data)
    assert isinstance(value, list)
    return value


def check_refused(log: MemoryLog, words: str, kind: type[AosError] = Damage) -> None:
    with pytest.raises(kind, match=words):
        BaseReader(log, KEY).check()


def test_a_stream_with_anything_else_is_no_base(rig: Replicated) -> None:  # CL-132
    datas = entries(rig.streams.streams[made(rig).stream])
    *rows, end = datas
    assert BaseReader(stream_of(datas), KEY).check().end == rig.owner.store.end

    check_refused(stream_of([]), "not finished", HalfBase)
    check_refused(stream_of(rows), "not finished", HalfBase)
    check_refused(stream_of([*rows[:-1], end]), "and not the")
    check_refused(stream_of([*rows, rows[0], end]), "and not the|does not follow|out of order")
    check_refused(stream_of([b"garbage", *datas]), "not canonical CBOR")
    check_refused(stream_of([encode(["aos/log/1"]), *datas]), "another form")
    check_refused(stream_of([encode(["aos/base/1", "other"]), *datas]), "another kind")
    check_refused(stream_of([encode(["aos/base/2", "rows"]), *datas]), "newer release", Refused)
    check_refused(stream_of([*rows, signed_with(end, SigningKey(b"x" * 32))]), "has not signed")
    for index in range(2, len(fields_of(end)) - 1):
        changed = fields_of(end)
        field = changed[index]
        changed[index] = field + 1 if isinstance(field, int) else content_hash(b"other")
        check_refused(stream_of([*rows, encode(changed)]), "has not signed")
    wrong = fields_of(end)
    wrong[-3] = 1
    check_refused(stream_of([*rows, signed_with(encode(wrong), WORLD_KEY)]), "and not the 1")
    for table, row in ((META, b"place"), (SYSTEM, HOME_KEY)):
        local = encode(["aos/base/1", "rows", table, [row, b"x"]])
        check_refused(stream_of([local, *datas]), "one machine alone")
    groups: list[list[Value]] = [[b"key"], [b"key", 1]]
    for group in groups:
        check_refused(stream_of([encode(["aos/base/1", "rows", "notes", group])]), "row")


def test_messages_between_parts_are_found(rig: Replicated) -> None:
    datas = entries(rig.streams.streams[made(rig).stream])
    for position in (0, 1, 5):
        for message in (None, parts_of(b"other" * 900, PART_BYTES)[1]):
            log = stream_of(datas)
            log.stream.messages.insert(position, message)
            check_refused(log, "something else|another entry")


def test_a_damaged_copy_is_read_again_from_another_server(rig: Replicated) -> None:
    stream = rig.streams.streams[made(rig).stream]  # LG-13
    position = next(
        index + 1 for index, part in enumerate(stream.messages) if part and part.total > 1
    )
    part = stream.messages[position - 1]
    assert part is not None
    whole = MemoryLog(stream)
    for other, is_read in ((whole, True), (None, False)):
        log = MemoryLog(stream, other=other)
        log.damaged[position] = part._replace(data=b"x" * len(part.data))
        if is_read:
            assert BaseReader(log, KEY).check().end == rig.owner.store.end
        else:
            check_refused(log, "altered bytes")


def test_a_store_that_is_damaged_makes_no_base(rig: Replicated) -> None:
    """Every flipped frame, value and head is found before anything is trimmed."""
    rows = list(rig.owner.store.all_rows())
    for index, row in enumerate(rows):
        if row.table in ("frames", "blobs", "pack") or row.key == b"head":
            value = bytes([row.value[0] ^ 1]) + row.value[1:]
            changed = [*rows[:index], row._replace(value=value), *rows[index + 1 :]]
            with pytest.raises(Damage):
                base_stream.write_base(
                    changed, MemoryLog(SharedStream()), WORLD_KEY, part_bytes=PART_BYTES
                )


def test_a_table_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    with LmdbStore.create(tmp_path / "new") as store:
        for row in (StoredRow("later", b"k", b"v"), StoredRow(SYSTEM, b"format", b"9")):
            with pytest.raises(Refused, match="a newer release wrote this store"):
                store.put_rows([row])
        out_of_order = [StoredRow("notes", b"b", b""), StoredRow("notes", b"a", b"")]
        with pytest.raises(Damage, match="out of order"):
            store.put_rows(out_of_order)
