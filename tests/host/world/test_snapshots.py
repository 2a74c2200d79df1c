"""Snapshots of worlds on disk: made by themselves and when asked for, and begun from (spec/host.md,
H-40 to H-48)."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import SnapshotInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Snapshot
from aos.core.snapshot.load import parts
from aos.core.snapshot.take import take
from aos.core.state.state import Mark
from aos.errors import BadUsage, Unavailable
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import Item, open_writer
from aos.host.errors import Stopping
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.folder.restore import catch_up, restore
from aos.host.world.engine import Engine
from aos.host.world.snapshots import (
    FORMAT_VARIABLE,
    OLD_RECORDS,
    SLICE_FIRST,
    SLICE_LEAST,
    SLICE_MOST,
    Every,
    Snapshots,
    format_of_environment,
    slice_after,
)
from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.verify_world import verify_world
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.stored_world import empty_state
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash, parse_hash
from tests.cli.shell import here
from tests.copies import copied
from tests.host.disk_world import ROOT, Running, check_journal
from tests.host.rig import Rig, eventually
from tests.tools import long_form

COUNTER = "bench/counter@1"
CELLS = 80
KILLS = 12 if long_form() else 3


@pytest.fixture(scope="module")
def counters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keyed counter: cells that have stepped, and mail for some of them."""
    path = tmp_path_factory.mktemp("counters") / "world"
    init_world(path)
    with open_writer(path) as writer:
        applied = writer.apply(load_manifest_files(ROOT / "benchmarks/worlds/counter.air.json"))
        assert isinstance(applied.answer, Admitted), applied.answer
    add(path, 200, "first")
    assert here("run", "--until-idle", "--world", path).code == 0
    add(path, 50, "second")
    return path


@pytest.fixture
def world(counters: Path, tmp_path: Path) -> Path:
    return copied(counters, tmp_path / "world")


def newest_format(path: Path) -> int:
    with open_reader(path) as reader:
        row = reader.store.snapshot_before()
        assert row is not None
        fields = decode_record(reader.store.blob(row.document))
        assert isinstance(fields, dict)
        number = fields["format"]
        assert isinstance(number, int)
        return number


def test_the_environment_names_the_format_of_snapshots(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-47f: without a name it is format 2."""
    formats = []
    for number, word in enumerate((None, "2", None, "1", None)):
        if word is None:
            monkeypatch.delenv(FORMAT_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(FORMAT_VARIABLE, word)
        add(world, 1, f"format {number}")
        with open_writer(world) as writer:
            writer.snapshot()
        formats.append(newest_format(world))
    assert formats == [2, 2, 2, 1, 2]
    assert verify_world(world).is_sound
    monkeypatch.setenv(FORMAT_VARIABLE, "3")
    with pytest.raises(BadUsage, match="AOS_SNAPSHOT_FORMAT: expected 1 or 2, found '3'"):
        format_of_environment()


def item(name: str, number: int) -> Item:
    value = {"key": f"c{number % CELLS}", "by": 1, "item": number}
    return Item(schema="bench/Add@1", value=value, submission_id=f"{name}-{number}")


def add(path: Path, many: int, name: str) -> None:
    with open_writer(path) as writer:
        answers = list(writer.send(item(name, number) for number in range(many)))
    assert all(isinstance(answer, Admitted) for answer in answers)


def snapshot(path: Path) -> dict[str, Any]:
    made = here("snapshot", "--json", "--world", path)
    assert made.code == 0, made.err
    return dict(json.loads(made.out))


def root(path: Path, *, whole: bool) -> Hash:
    """Return the hash that a snapshot of the current world would have.

    The state is folded from the genesis (``whole``), or restored from the last snapshot."""
    folder = open_folder(path)
    with folder.open_store(readonly=True) as store:
        head = store.head()
        assert head is not None
        if not whole:
            return take(restore(store, folder.world), content_hash).document
        state = empty_state(store)
        catch_up(state, store, head)
        return take(state, content_hash).document


def snapshots(path: Path) -> list[int]:
    with open_folder(path).open_store(readonly=True) as store:
        return [row.at for row in store.snapshots()]


def test_a_world_that_no_process_runs_gets_a_snapshot(world: Path) -> None:
    """H-40, SN-1: its document is the root of the world, and the world continues after it."""
    expected, cells = root(world, whole=True), CELLS
    made = snapshot(world)

    assert parse_hash(made["document"]) == expected
    assert (made["seq"], made["cells"]) == (made["at"] + 1, cells)
    assert snapshots(world) == [made["at"]]
    assert root(world, whole=False) == root(world, whole=True)
    assert here("run", "--until-idle", "--world", world).code == 0
    assert root(world, whole=False) == root(world, whole=True)
    assert verify_world(world).is_sound


def test_a_restart_reads_what_came_after_the_snapshot_and_nothing_else(world: Path) -> None:
    """H-40."""
    made = snapshot(world)
    add(world, 3, "third")
    read: list[tuple[int, int]] = []

    with open_reader(world, progress=lambda done, total: read.append((done, total))) as reader:
        assert len(reader.state.cells) == CELLS
        assert not reader.state.cells.shelves[COUNTER].resting
    assert read[0][0] > made["at"]
    assert {total for _, total in read} == {read[-1][0]}


def test_replay_ends_in_the_same_root_from_the_genesis_and_from_each_snapshot(world: Path) -> None:
    """A-12a."""
    for name in ("a", "b", "c"):
        add(world, 40, name)
        assert here("run", "--until-idle", "--world", world).code == 0
        snapshot(world)
    add(world, 5, "d")
    with open_folder(world).open_store(readonly=True) as store:
        said = [replay_store(store, start=row) for row in (None, *store.snapshots())]

    assert {each.state_root for each in said} == {root(world, whole=True)}
    assert [each.snapshots for each in said] == [3, 3, 2, 1]
    records = [each.records for each in said]
    assert records == sorted(set(records), reverse=True)
    newest = here("replay", "--from", "snapshot", "--json", "--world", world)
    found = json.loads(newest.out)
    assert (found["records"], found["seq"]) == (said[-1].records, said[-1].seq)
    refused = here("replay", "--from", "3", "--world", world)
    assert refused.code == 2
    assert "no snapshot up to record 3" in refused.err


def test_time_travel_begins_at_the_snapshot_before(world: Path) -> None:
    """H-45: any record, also in the middle of a frame, before and after snapshots."""
    first = snapshot(world)["at"]
    assert here("run", "--until-idle", "--world", world).code == 0
    second = snapshot(world)["at"]
    with open_folder(world).open_store(readonly=True) as store:
        head = store.head()
        assert head is not None
        starts = {frame.header.first for frame in store.frames()}
    for at in sorted({1, 2, 150, first - 1, first, first + 1, second - 7, second, head.seq}):
        with open_reader(world, at=at) as reader:
            assert reader.seq == at
            found = {cell.id: cell.last_seq for cell in reader.state.cells.values()}
            base = reader.state.cells.at
        expected = second if at >= second else first if at >= first else 0
        assert base == expected, (at, starts)
        assert all(last <= at for last in found.values())
    said = here("inspect", "cell", "counter", "c7", "--json", "--at", str(first), "--world", world)
    assert json.loads(said.out)["mailbox"] == 1
    said = here("inspect", "world", "--at", "5", "--json", "--world", world)
    assert json.loads(said.out)["at"] == 5
    refused = here("inspect", "world", "--at", str(head.seq + 1), "--world", world)
    assert refused.code == 2
    assert f"expected a record from 1 to {head.seq}" in refused.err


def test_a_running_world_makes_them_by_itself_and_answers_meanwhile(world: Path) -> None:
    """H-47 to H-47b."""
    with Running(world, "--snapshot-records", "300") as running:
        for number in range(3):
            add(world, 160, f"load-{number}")
            eventually(lambda most=number: len(snapshots(world)) > most, "another snapshot")  # type: ignore[misc]  # bound
        made = snapshot(world)
        status = running.status()
        assert status["snapshot"][0] == made["seq"]
        assert running.stop()[0] == 0
    assert root(world, whole=False) == root(world, whole=True)
    assert verify_world(world).is_sound


def test_a_world_under_load_that_is_killed_again_and_again(world: Path) -> None:
    """H-47c: acknowledged events are there once, even with a snapshot in progress."""
    chance = random.Random(7)
    sent: list[str] = [
        *(f"first-{number}" for number in range(200)),
        *(f"second-{number}" for number in range(50)),
    ]
    acknowledged: dict[str, int] = {}
    for round_ in range(KILLS):
        over = threading.Event()

        def load(name: str, over: threading.Event) -> None:
            number = 0
            while not over.is_set():
                names = [f"{name}-{n}" for n in range(number, number + 20)]
                sent.extend(names)
                try:
                    with open_writer(world, connect_s=0.2, busy_s=0.2) as writer:
                        given = (item(name, n) for n in range(number, number + 20))
                        for each, answer in zip(names, writer.send(given), strict=True):
                            assert isinstance(answer, Admitted)
                            acknowledged[each] = answer.seq
                except Unavailable:
                    return
                number += 20

        with Running(world, "--snapshot-records", "40", "--cell-cache-size", "3") as running:
            sender = threading.Thread(target=load, args=(f"round-{round_}", over))
            sender.start()
            time.sleep(0.4 + chance.random())
            running.kill()
            over.set()
            sender.join()
    check_journal(world, sent, acknowledged)
    assert root(world, whole=False) == root(world, whole=True)
    with Running(world, "--snapshot-records", "40") as running:
        add(world, 40, "last")
        eventually(lambda: bool(snapshots(world)), "a snapshot")
        assert running.stop()[0] == 0
    assert verify_world(world).is_sound
    with open_folder(world).open_store(readonly=True) as store:
        replay_store(store)
        replay_store(store, start=store.snapshot_before())


def test_a_snapshot_with_a_missing_part_is_damage_that_verify_names(world: Path) -> None:
    """H-40a, A-27a."""
    made = snapshot(world)
    document = parse_hash(made["document"])
    with LmdbStore.open(world / "store") as store, store._environment.write(1) as txn:
        txn.delete(document, db=store._environment.tables["blobs"])

    for words in (["inspect", "world"], ["run", "--until-idle"], ["replay", "--from", "snapshot"]):
        ended = here(*words, "--world", world)
        assert ended.code == 3, words
        assert f"blob {made['document']} is missing" in ended.err
    found = here("verify", "--world", world)
    assert found.code == 3
    assert "newest snapshot" in found.out + found.err
    # From the genesis on nothing is missing: the journal itself is whole.
    assert here("replay", "--world", world).code == 0


def test_a_snapshot_record_of_another_world_than_the_journals_is_found(world: Path) -> None:
    """A-12a, A-27a: by replay and by verify, though every hash and signature is right."""
    with open_writer(world) as writer:
        engine = cast("Any", writer)._way._engine
        blobs = {content_hash(encode({"format": 1})): encode({"format": 1})}
        engine.keep(blobs).result()
        head = cast("Any", writer)._way._store.head()
        given = SnapshotInput(at=head.seq, frame=head.frame, document=next(iter(blobs)), size=11)
        [answer] = engine.submit([given]).result()
        assert isinstance(answer, Admitted)
    replayed = here("replay", "--world", world)
    assert replayed.code == 3
    assert "replay differs in document" in replayed.err
    found = here("verify", "--json", "--world", world)
    kinds = {each["kind"] for each in json.loads(found.out)["findings"]}
    assert kinds == {"snapshot_wrong"}


def test_blobs_outside_the_journal_become_durable_between_groups() -> None:
    """H-47a: also where the disk is full for a moment, and at the end of a world."""
    rig = Rig()
    rig.engine.start()
    data = b"a part of a snapshot"
    assert rig.engine.keep({content_hash(data): data}).result() > 0  # ns
    assert rig.store.blob(content_hash(data)) == data

    def full(blobs: Mapping[Hash, bytes]) -> None:
        raise NoRoom("no room", needed_bytes=1, free=0)

    rig.store.put_blobs = full  # type: ignore[attr-defined]  # in place of the store's own
    with pytest.raises(NoRoom):
        rig.engine.keep({content_hash(b"x"): b"x"}).result()
    # The answer comes a moment before the committer has noted that nothing is left.
    assert rig.engine.wait_quiet(10)
    rig.engine.stop()
    with pytest.raises(Stopping):
        rig.engine.keep({content_hash(b"x"): b"x"}).result()


@pytest.mark.parametrize(
    ("most", "took_ms", "aim_ms", "expected"),
    [
        (SLICE_FIRST, 2, 2, SLICE_FIRST),
        (SLICE_FIRST, 3, 2, SLICE_FIRST * 2 // 3),
        (SLICE_FIRST, 50, 2, SLICE_FIRST // 2),
        (SLICE_FIRST, 0, 2, SLICE_FIRST * 2),
        (SLICE_LEAST, 50, 2, SLICE_LEAST),
        (SLICE_MOST, 1, 2, SLICE_MOST),
    ],
)
def test_a_slice_goes_after_how_long_the_last_one_took(
    most: int, took_ms: int, aim_ms: int, expected: int
) -> None:
    """H-47a: inputs that arrive meanwhile wait until the slice ends."""
    found = slice_after(most, took_ns=took_ms * 10**6, aim_ns=aim_ms * 10**6)

    assert found == expected


@pytest.mark.parametrize(
    ("every", "since", "age_s", "expected"),
    [
        (Every(records=100, seconds=600), 99, 10, False),
        (Every(records=100, seconds=600), 100, 10, True),
        (Every(records=50_000, seconds=600), OLD_RECORDS, 599, False),
        (Every(records=50_000, seconds=600), OLD_RECORDS, 600, True),
        (Every(records=50_000, seconds=600), OLD_RECORDS - 1, 6000, False),
        (Every(records=100, seconds=600), 99, 6000, False),
    ],
)
def test_when_one_is_due(every: Every, since: int, age_s: float, expected: bool) -> None:
    """H-47b."""
    figures = SimpleNamespace(seq=10 + since, snapshot=Mark(10, 9, Hash(bytes(32))))
    engine = SimpleNamespace(stats=lambda: SimpleNamespace(figures=figures))
    made = Snapshots(cast("Engine", engine), Path(), every=every)
    assert made._is_due(age_s) is expected


def test_the_records_of_snapshots_name_the_frame_that_they_were_taken_after(world: Path) -> None:
    """SN-3."""
    at = snapshot(world)["at"]
    with open_reader(world) as reader:
        mark = reader.state.snapshot
        assert mark is not None
        frame = reader.store.frame_at(at)
        assert frame is not None
        last = reader.store.frame_at(mark.seq)
        assert last is not None
    record = from_bytes(last.records[mark.seq - last.header.first])
    assert isinstance(record, Snapshot)
    assert (record.at, record.frame) == (frame.header.last, frame.hash)


def test_no_part_of_a_snapshot_that_is_kept_is_erased(world: Path) -> None:
    """H-47e. The core itself knows of the newest one only."""
    snapshot(world)
    with open_folder(world).open_store(readonly=True) as store:
        [older] = store.snapshots()
        parts_of_older = set(parts(older.document, store.blob))
    add(world, 3, "third")
    assert here("run", "--until-idle", "--world", world).code == 0
    snapshot(world)
    with open_folder(world).open_store(readonly=True) as store:
        newest = store.snapshot_before()
        assert newest is not None
        only_older = parts_of_older - set(parts(newest.document, store.blob))
    assert older.document in only_older

    with open_writer(world) as writer:
        for value in sorted(only_older):
            answer = writer.control("erase", value=value)
            assert isinstance(answer, Refusal)
            assert answer.rule is Rule.VALUE_IS_IN_USE
            assert f"the snapshot after record {older.at}" in answer.message
        assert writer.signed_state().controls == 0
