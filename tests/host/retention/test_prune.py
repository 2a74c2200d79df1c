"""Records before a snapshot go to an archive, and nothing else changes (RT-1 to RT-9)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.inputs import KEEP_OPEN
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Snapshot
from aos.core.snapshot.take import take
from aos.errors import BadUsage, Damage, Pruned, Refused, Unavailable
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.retention import pruning
from aos.host.retention.pruning import PrunedRecords as Report
from aos.host.retention.pruning import prune_world
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.forking import fork_world
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_store import verify_bundle
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify import verify_store
from aos.prove.verify.verify_world import verify_world
from aos.store.bundle.reader import open_bundle
from aos.store.derived import rows_at
from aos.store.errors import WorldIsHeld
from aos.store.lmdb_store import LmdbStore
from aos.store.lock import WorldLock
from aos.store.rows import Forget
from aos.store.stored_world import state_of
from aos.values.digests import Hash, content_hash, hash_text
from tests.host.on_disk import folder_of, more_of
from tests.prove.journals import Shop, runner
from tests.run_seed import in_turns


class Killed(BaseException):
    """The process ends here."""


def shop() -> Shop:
    """Orders in every state, two snapshots, and open work across both."""
    world = Shop()
    world.place("ord-1", 5, "sub-1")
    world.place("ord-2", 7, "sub-2")
    world.place("ord-3", 20_000)
    world.run()
    world.charged("ord-1")
    world.fail(world.intent_of("ord-2"), "declined")
    world.run()
    world.snapshot()
    world.place("ord-4", 0)
    world.place("ord-5", 9, "sub-5")
    world.run()
    world.charged("ord-3")
    world.run()
    world.snapshot()
    world.fired("ord-2")
    world.place("ord-6", 11, "sub-6")
    world.run()
    return world


def snapshots_of(world: Shop) -> list[int]:
    return [each.at for each in world.records() if isinstance(each, Snapshot)]


@pytest.fixture
def world() -> Shop:
    return shop()


@pytest.fixture
def folder(world: Shop, tmp_path: Path) -> Path:
    return folder_of(world, tmp_path / "world")


def root_of(folder: Path) -> Hash:
    """The world's current state, as one hash."""
    with open_reader(folder) as reader:
        return take(reader.state, content_hash).document


def store_in(folder: Path) -> LmdbStore:
    return LmdbStore.open(folder / "store", readonly=True)


def everything(folder: Path) -> list[object]:
    with store_in(folder) as store:
        return [
            store.cut(), list(store.frames()), list(store.blob_hashes()), list(store.intents()),
            list(store.submissions()), list(store.snapshots()), list(store.puts()),
        ]  # fmt: skip


def sound(folder: Path, *archives: Path) -> int:
    """The world verifies; return the last record that was left out."""
    with store_in(folder) as store, ExitStack() as stack:
        opened = [stack.enter_context(open_bundle(each)) for each in archives]
        report = verify_store(store, archives=opened)
    assert report.findings == ()
    assert report.folded
    return report.pruned


def test_the_records_are_in_the_archive_and_the_world_is_the_same(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-1 to RT-6."""
    first, last = snapshots_of(world)
    before, file = root_of(folder), tmp_path / "old.aos"

    done = prune_world(folder, snapshot_name=str(last), archive=file)

    assert (done.first, done.last, done.archive) == (1, last, file)
    assert (done.was_begun, done.not_compacted) == (False, None)
    assert done.bytes_after < done.bytes_before
    assert root_of(folder) == before
    with store_in(folder) as store:
        kept = [frame for frame in world.frames if frame.header.first > last]
        assert list(store.frames(last + 1)) == kept
        assert done.frames == len(world.frames) - len(kept) - 1
        assert store.frame_at(1) == world.frames[0]
        with pytest.raises(Pruned, match=f"record {first} was pruned.*old.aos, with records 1 to"):
            store.frame_at(first)
        assert [row.at for row in store.snapshots()] == [last]
    with open_bundle(file) as archive:
        archive.check()
        assert list(archive.frames()) == world.frames[: -len(kept)]
        assert archive.head().seq == last


def test_world_and_archive_verify_apart_and_together(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-7, A-27b, A-27c."""
    last = snapshots_of(world)[-1]
    whole = verify_world(folder)
    file = tmp_path / "old.aos"
    prune_world(folder, snapshot_name="newest", archive=file)

    alone, rest = verify_bundle(file), verify_world(folder)
    together = verify_world(folder, archives=[file])

    assert [alone.findings, rest.findings, together.findings] == [(), (), ()]
    assert (alone.pruned, rest.pruned, together.pruned) == (0, last, 0)
    assert alone.records + rest.records == together.records == whole.records
    assert (alone.seq, rest.seq, together.seq) == (last, whole.seq, whole.seq)
    assert rest.log_root == together.log_root == whole.log_root
    assert together.signatures == whole.signatures
    assert rest.rows == together.rows < whole.rows


def test_the_archive_is_replayed_like_any_bundle(world: Shop, folder: Path, tmp_path: Path) -> None:
    """RT-5."""
    file = tmp_path / "old.aos"
    prune_world(folder, snapshot_name="newest", archive=file)

    with open_bundle(file) as archive:
        report = replay(archive.frames(), archive.blob, runner(world), head=archive.head())

    assert report.seq == snapshots_of(world)[-1]


def test_a_world_is_pruned_again_and_its_archives_lead_to_it(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-8: a later archive contains the snapshot that it continues from."""
    first, last = snapshots_of(world)
    one, two = tmp_path / "one.aos", tmp_path / "two.aos"
    prune_world(folder, snapshot_name=str(first), archive=one)
    before = root_of(folder)

    done = prune_world(folder, snapshot_name=str(last), archive=two)

    assert (done.first, done.last) == (first + 1, last)
    assert root_of(folder) == before
    assert sound(folder) == last
    assert sound(folder, two) == first
    assert sound(folder, two, one) == 0
    alone = verify_bundle(two)
    assert (alone.findings, alone.pruned, alone.seq) == ((), first, last)
    with open_bundle(two) as archive:
        assert next(frame.header.first for frame in archive.frames()) == first + 1
    with store_in(folder) as store:
        for seq, name in ((2, one), (first + 1, two)):
            with pytest.raises(Pruned, match=f"archive {name}"):
                store.frame_at(seq)
    with pytest.raises(BadUsage, match="do not lead to where the world begins"):
        verify_world(folder, archives=[one])
    with pytest.raises(BadUsage, match="do not follow one another"):
        verify_world(folder, archives=[two, two])


def test_without_a_name_the_archive_lies_in_the_worlds_folder(folder: Path) -> None:
    done = prune_world(folder)

    assert done.archive == folder / "archives" / f"records-1-{done.last}.aos"
    assert sound(folder, done.archive) == 0


def test_the_world_is_pruned_while_work_is_open_and_continues(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-4: a receipt for an intent that a pruned record opened, and a submission that came."""
    last = snapshots_of(world)[-1]
    prune_world(folder, archive=tmp_path / "old.aos")
    opened = world.intent_of("ord-5")
    assert opened.seq <= last
    world.charged("ord-5")
    again = world.send("shop/Placed@1", {"order_id": "ord-1", "amount": 5}, "sub-1")
    world.run()
    more_of(world, folder)

    assert type(again).__name__ == "Duplicate"
    assert sound(folder) == last
    assert root_of(folder) == take(world.state, content_hash).document
    with store_in(folder) as store:
        row = store.intent(opened.intent)
        assert row is not None
        assert (row.opened_seq, row.settled_seq is not None) == (opened.seq, True)
        assert store.submission("sub-1") is not None


def test_rows_that_only_pruned_records_say_of_are_gone(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-4."""
    last = snapshots_of(world)[-1]
    with store_in(folder) as store:
        before = dict(store.intents())
    prune_world(folder, archive=tmp_path / "old.aos")

    with store_in(folder) as store:
        row = store.snapshot_before()
        assert row is not None
        expected = rows_at(state_of(store, row), {}).intents.keys()
        kept = dict(store.intents())
        assert {each for each, at in kept.items() if at.opened_seq <= last} == set(expected)
        assert kept == {
            each: at for each, at in before.items() if each in expected or at.opened_seq > last
        }
        assert len(kept) < len(before)


def test_a_reader_reports_pruned_records_and_continues_from_its_place(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-2: also one that was open meanwhile."""
    first, last = snapshots_of(world)
    with open_reader(folder) as reader:
        assert reader.refresh() == 0
    prune_world(folder, archive=tmp_path / "old.aos")

    with open_reader(folder) as reader:
        assert reader.seq == world.state.tip.seq
    with open_reader(folder, at=last) as reader:
        assert reader.state.next_seq == last + 1
    for seq in (2, first, last - 1):
        with pytest.raises(Pruned, match="was pruned"):
            open_reader(folder, at=seq)


# Refusals and damage


def test_a_refused_prune_gives_its_reason_and_changes_nothing(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    first, last = snapshots_of(world)
    before = everything(folder)
    taken = tmp_path / "taken"
    taken.write_text("mine")

    with pytest.raises(BadUsage, match=f"expected newest, or the record .*: {first}, {last}, fou"):
        prune_world(folder, snapshot_name=str(last + 1))
    with pytest.raises(BadUsage, match="this is no bundle"):
        prune_world(folder, archive=taken)
    with WorldLock(folder, runs=True), pytest.raises(WorldIsHeld, match="the world is written by"):
        prune_world(folder)
    (folder / "keys" / "world.key").rename(tmp_path / "world.key")
    with pytest.raises((Refused, Damage, Unavailable), match=r"world\.key"):
        prune_world(folder)

    assert everything(folder) == before
    assert taken.read_text() == "mine"


def test_a_world_without_a_snapshot_is_not_pruned(tmp_path: Path) -> None:
    world = Shop()
    world.place("ord-1", 5)
    world.run()
    folder = folder_of(world, tmp_path / "world")

    with pytest.raises(BadUsage, match=r"the world has no snapshot \(make one: aos snapshot\)"):
        prune_world(folder)


def test_pruned_records_are_not_pruned_again(world: Shop, folder: Path) -> None:
    first, last = snapshots_of(world)
    done = prune_world(folder, snapshot_name=str(last))

    again = prune_world(folder, snapshot_name="newest")

    assert (again.last, again.frames, again.was_begun) == (last, 0, True)
    assert again.archive == done.archive
    with pytest.raises(BadUsage, match="no such snapshot"):
        prune_world(folder, snapshot_name=str(first))


def test_an_archive_of_something_else_is_not_taken_for_this_one(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-5: a file that is there counts only if it is the whole archive."""
    first, last = snapshots_of(world)
    file = tmp_path / "old.aos"
    other = folder_of(shop(), tmp_path / "other")
    prune_world(other, snapshot_name=str(first), archive=file)

    with pytest.raises(Refused, match=f"expected the archive of records 1 to {last}"):
        prune_world(folder, snapshot_name=str(last), archive=file)
    done = prune_world(folder, snapshot_name=str(first), archive=file)

    assert sound(folder, file) == 0
    assert done.last == first


def test_a_snapshot_that_is_not_whole_is_no_reason_to_prune(folder: Path) -> None:
    with LmdbStore.open(folder / "store") as store:
        row = store.snapshot_before()
        assert row is not None
        state = state_of(store, row)
        cell = next(each for each in state.cells.values() if each.is_at_rest)
        assert cell.state is not None
        assert not isinstance(cell.state, bytes)
        store.forget(Forget(blobs=[cell.state.hash]))
    before = everything(folder)

    with pytest.raises(Damage, match="is not whole, and nothing was pruned: the state of a cell"):
        prune_world(folder)

    assert everything(folder) == before


def test_a_snapshot_of_another_world_than_the_journals_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-6: the history is not given up for a lie about it."""
    real = take

    def lie(state: Any, put: Callable[[bytes], Hash], *, format: int) -> Any:
        state.clock_ns += 1
        return real(state, put, format=format)

    monkeypatch.setattr("aos.host.retention.pruning.take", lie)
    with pytest.raises(Damage, match="is not of the world as it was then, and nothing was pruned"):
        prune_world(folder)

    assert sound(folder) == 0


def altered(file: Path, target: Path, at: int) -> Path:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    target.write_bytes(data)
    return target


def test_an_altered_archive_is_found_with_the_world_and_alone(folder: Path, tmp_path: Path) -> None:
    """RT-7."""
    file = tmp_path / "old.aos"
    prune_world(folder, archive=file)
    with open_bundle(file) as archive:
        frames = list(archive.frames())
    at = file.read_bytes().find(frames[3].records[0]) + 40

    bad = altered(file, tmp_path / "bad.aos", at)

    alone, together = verify_bundle(bad), verify_world(folder, archives=[bad])
    for report in (alone, together):
        assert FindingKind.BUNDLE_DAMAGED in {each.kind for each in report.findings}
    assert verify_world(folder).is_sound


def test_the_archive_of_another_world_does_not_lead_to_this_one(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-7: the same number of records, another chain."""
    other = shop()
    other.seed = "another"
    different = Shop()
    different.place("ord-1", 6, "sub-1")
    different.place("ord-2", 7, "sub-2")
    different.place("ord-3", 20_000)
    different.run()
    different.charged("ord-1")
    different.fail(different.intent_of("ord-2"), "declined")
    different.run()
    different.snapshot()
    different.run()
    first = snapshots_of(world)[0]
    assert snapshots_of(different) == [first]
    file, foreign = tmp_path / "old.aos", tmp_path / "foreign.aos"
    prune_world(folder, snapshot_name=str(first), archive=file)
    prune_world(folder_of(different, tmp_path / "different"), archive=foreign)

    report = verify_world(folder, archives=[foreign])

    assert verify_bundle(foreign).is_sound
    assert FindingKind.CHAIN_BROKEN in {each.kind for each in report.findings}


def test_a_cut_that_lies_is_found(world: Shop, folder: Path, tmp_path: Path) -> None:
    """A-27b: the store's record of its beginning is compared with the signed chain."""
    file = tmp_path / "old.aos"
    prune_world(folder, archive=file)
    with LmdbStore.open(folder / "store") as store:
        cut = store.cut()
    assert cut is not None
    first = snapshots_of(world)[0]
    lies: tuple[dict[str, Any], ...] = (
        {"frame": content_hash(b"x")},
        {"log": type(cut.log).of([content_hash(b"x")] * cut.log.size)},
        {"document": content_hash(b"none")},
        {"seq": cut.seq + 1},
        {"seq": first},
    )
    for lie in lies:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        with LmdbStore.open(copy / "store") as store:
            store.set_cut(replace(cut, **lie))

        with store_in(copy) as read:
            assert not verify_store(read).is_sound, lie
        shutil.rmtree(copy)


# Killed

STEPS = ("write_archive", "add_puts", "set_cut", "drop_frames", "forget", "compact")


def killing(monkeypatch: pytest.MonkeyPatch, name: str, nth: int, *, after: bool) -> None:
    """The process ends before or after the ``nth`` call of one step."""
    owner: Any = pruning if name == "write_archive" else LmdbStore
    real = getattr(owner, name)
    count = 0

    def step(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth and not after:
            raise Killed
        found = real(*arguments, **options)
        if count == nth:
            raise Killed
        return found

    monkeypatch.setattr(owner, name, step)


def places() -> Iterator[tuple[str, int, bool]]:
    for name in STEPS:
        for nth in (1, 3):
            for after in (False, True):
                yield name, nth, after


@pytest.mark.long
@pytest.mark.parametrize(("name", "nth", "after"), in_turns(3, places()))
def test_a_prune_that_was_killed_is_finished_by_the_same_command(
    world: Shop, tmp_path: Path, name: str, nth: int, after: bool
) -> None:
    """RT-9: in between everything reads as before, or as after."""
    monkey = pytest.MonkeyPatch()
    monkey.setattr("aos.host.retention.pruning.FRAMES_AT_ONCE", 2)
    monkey.setattr("aos.host.retention.pruning.FORGET_MAX", 2)
    folder, file = folder_of(world, tmp_path / "world"), tmp_path / "old.aos"
    before, last = root_of(folder), snapshots_of(world)[-1]
    done: Report | None = None
    try:
        with monkey.context() as patch:
            killing(patch, name, nth, after=after)
            try:
                done = prune_world(folder, archive=file)
            except Killed:
                assert root_of(folder) == before
                assert sound(folder) in (0, last)
        if done is None:
            done = prune_world(folder, archive=file)
    finally:
        monkey.undo()

    assert root_of(folder) == before
    assert done.last == last
    assert sound(folder) == last
    assert sound(folder, file) == 0
    with store_in(folder) as store:
        cut = store.cut()
        assert cut is not None
        assert cut.is_done
        assert [each.name for each in cut.archives] == [str(file)]
        assert {frame.header.first for frame in [store.frame_at(1)] if frame} == {1}


def test_an_unfinished_prune_is_finished_by_any_other(world: Shop, folder: Path) -> None:
    """RT-9: whatever it was asked for."""
    first, last = snapshots_of(world)
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "drop_frames", 1, after=False)
        with pytest.raises(Killed):
            prune_world(folder, snapshot_name=str(first))

    done = prune_world(folder, snapshot_name=str(last))

    assert (done.last, done.was_begun) == (first, True)
    assert prune_world(folder, snapshot_name=str(last)).last == last
    assert sound(folder) == last


def test_a_store_that_cannot_be_compacted_is_pruned_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: LmdbStore) -> None:
        raise Unavailable("no room for a compact copy")

    monkeypatch.setattr(LmdbStore, "compact", fail)

    done = prune_world(folder)

    assert done.not_compacted == "no room for a compact copy"
    assert sound(folder) == done.last


def test_the_record_of_the_snapshot_must_be_in_the_journal(world: Shop, folder: Path) -> None:
    """A-27b: otherwise the world would continue from a snapshot that no record names."""
    prune_world(folder)
    with LmdbStore.open(folder / "store") as store:
        frames = list(store.frames(snapshots_of(world)[-1] + 1))
        names = [from_bytes(data).KIND for frame in frames for data in frame.records]
        assert names.count(Snapshot.KIND) == 1
        report = verify_store(store)
    assert report.is_sound
    assert hash_text(frames[0].header.world) == hash_text(world.state.world)


# Forks


def test_a_fork_is_pruned_before_a_snapshot_of_its_own_and_never_before_its_parents(
    world: Shop, folder: Path, tmp_path: Path
) -> None:
    """RT-3: its beginning, and not the parent's, vouches for what is kept."""
    path, one, two = tmp_path / "fork", tmp_path / "one.aos", tmp_path / "two.aos"
    inherited = snapshots_of(world)[0]
    fork_world(folder, path, at=world.state.tip.seq, open_work=KEEP_OPEN)
    adopt_world(path)
    with open_writer(path) as writer:
        first = writer.snapshot()

    with pytest.raises(Refused, match=r"is not this world's key"):
        prune_world(path, snapshot_name=str(inherited), archive=one)
    prune_world(path, snapshot_name=str(first.at), archive=one)
    with open_writer(path) as writer:
        writer.snapshot()
        later = writer.snapshot()
    prune_world(path, snapshot_name=str(later.at), archive=two)

    assert sound(path) == later.at
    assert sound(path, two) == first.at
    assert sound(path, one, two) == 0
    for file in (one, two):
        assert verify_bundle(file).findings == ()
    with open_reader(path) as reader:
        assert reader.state.ancestors[-1].world == world.state.world
    with open_writer(path) as writer:
        assert writer.signed_state().world == open_folder(path).world
