"""A store on disk: permissions to open it, and signs of damage (spec/store.md)."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from aos.core.journal.frame import Tip, follow, read_frame, seal
from aos.errors import Damage, Erased, Refused, Unavailable
from aos.store import first_look, lmdb_journal, lmdb_rows, shared
from aos.store.errors import CommitFailed
from aos.store.first_look import structure_problems
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import content_hash, hash_text
from tests.store.children import ask, end, in_child, line, spawn
from tests.store.faulty import FaultyEnvironment, error
from tests.store.journal import WORLD, Journal, grown, put, world


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read_all(folder: Path, *, looks: bool = True) -> str:
    """Read everything there is, and check it; return how far it goes."""
    with LmdbStore.open(folder, readonly=True, looks=looks) as store:
        tip = Tip(world=WORLD)
        for frame in store.frames():
            tip = follow(tip, frame)
        for hash in store.blob_hashes():
            store.blob(hash)
        list(store.intents())
        list(store.submissions())
        head = store.head()
        assert head is not None
        if (head.seq, head.frame) != (tip.seq, tip.frame):
            return f"Damage: the head is {head.seq}, the frames end at {tip.seq}"
        return f"whole to {tip.seq}"


# Making and opening


def test_only_the_owner_may_look_into_it(folder: Path) -> None:
    """ST-11."""
    world(folder)

    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert {path.name for path in folder.iterdir()} == {"closed", "data.mdb", "lock.mdb"}
    for path in folder.iterdir():
        assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_the_map_takes_no_room_on_disk(folder: Path) -> None:
    """ST-12."""
    with LmdbStore.create(folder) as store:
        assert store._environment._raw.info()["map_size"] == 1 << 40
        assert store.size_bytes() < 100_000


def test_a_commit_is_synced(folder: Path) -> None:
    """ST-3."""
    with LmdbStore.create(folder) as store:
        flags = store._environment._raw.flags()
    assert (flags["sync"], flags["metasync"]) == (True, True)
    assert (flags["writemap"], flags["map_async"]) == (False, False)


def test_a_store_can_be_created_again_until_it_has_a_journal(folder: Path) -> None:
    """ST-11."""
    LmdbStore.create(folder).close()
    with LmdbStore.create(folder) as store:
        journal = grown(store, 1)

    with pytest.raises(Refused, match="a store with a journal is here already"):
        LmdbStore.create(folder)
    with LmdbStore.open(folder) as store:
        assert store.head() == journal.head()


def test_a_store_that_was_not_finished_says_so(folder: Path) -> None:
    """ST-11: the process died between the file and its tables."""
    folder.mkdir()
    lmdb.open(str(folder), map_size=1 << 30).close()

    with pytest.raises(Damage, match="not a whole AOS store: a table is missing"):
        LmdbStore.open(folder)
    with pytest.raises(Damage, match="not a whole AOS store: a table is missing"):
        LmdbStore.open(folder, readonly=True)
    with LmdbStore.create(folder) as store:
        grown(store, 1)


def test_the_parent_must_exist(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the store cannot be opened: No such file"):
        LmdbStore.create(tmp_path / "no" / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("readonly", [False, True])
def test_opening_makes_nothing(tmp_path: Path, readonly: bool) -> None:
    """ST-13."""
    (tmp_path / "empty").mkdir()

    for name in ("absent", "empty"):
        with pytest.raises(Damage, match="data file is missing"):
            LmdbStore.open(tmp_path / name, readonly=readonly)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_newer_format_is_not_read(folder: Path) -> None:
    """ST-15."""
    world(folder)
    alter(folder, "system", b"format", lambda _: b"3")

    with pytest.raises(Damage) as caught:
        LmdbStore.open(folder, readonly=True)
    assert str(caught.value) == (
        f"{folder}: store format: expected 1 or 2, found '3' "
        "(a newer release wrote it, or it is damaged)"
    )
    alter(folder, "system", b"format", lambda _: None)
    with pytest.raises(Damage, match="store format: expected 1 or 2, found none"):
        LmdbStore.open(folder)


def test_a_user_without_permission_cannot_read(tmp_path: Path) -> None:
    """ST-13: a reader must be able to register itself."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user: permissions are NOT TESTED here")
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        world(base / "store")
        for path in (base, base / "store", base / "store" / "data.mdb"):
            path.chmod(0o755)

        def act() -> str:
            os.setuid(65534)
            return read_all(base / "store")

        assert in_child(act) == (
            f"Unavailable: {base / 'store'}: no permission: {base / 'store'}: Permission denied "
            "(a reader too must be able to write lock.mdb; or read a copy)"
        )
        (base / "store" / "data.mdb").chmod(0)
        assert in_child(act) == (
            f"Unavailable: {base / 'store'}: the store cannot be opened: Permission denied"
        )


def test_a_user_without_permission_cannot_make_one(tmp_path: Path) -> None:
    """ST-11."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user: permissions are NOT TESTED here")
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        (base / "made").mkdir(mode=0o755)

        def act(folder: Path) -> str:
            os.setuid(65534)
            LmdbStore.create(folder)
            return "passed"

        assert in_child(lambda: act(base / "absent")) == (
            f"Unavailable: {base / 'absent'}: the store cannot be opened: Permission denied"
        )
        assert in_child(lambda: act(base / "made")).startswith(
            f"Unavailable: {base / 'made'}: no permission: "
        )


# Several at once


def test_a_reader_in_another_process_sees_what_is_durable_at_once(folder: Path) -> None:
    """ST-7."""
    journal = world(folder, frames=0)
    child = spawn("reader", str(folder))
    try:
        assert line(child.stdout) == "open"
        with LmdbStore.open(folder) as store:
            for frames in range(2, 30):
                journal.event(value=bytes(2000))
                journal.seal()
                put(store, journal)
                assert ask(child, "?") == f"{frames} {frames}"
    finally:
        end(child)


def test_a_reader_that_died_is_forgotten(folder: Path) -> None:
    """ST-14."""
    world(folder)
    child = spawn("reader", str(folder), "hold")
    assert line(child.stdout).startswith("held")
    with LmdbStore.open(folder) as store:
        assert store.sync_reader_check() == 0
        end(child)
        assert store.sync_reader_check() == 1
        assert store.sync_reader_check() == 0


def test_no_transaction_is_open_between_two_frames(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-6: a reader that stops in the middle does not keep pages from being reused."""
    monkeypatch.setattr(lmdb_journal, "SLICE_FRAMES", 4)
    monkeypatch.setattr(lmdb_rows, "SLICE_ROWS", 4)
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for n in range(20):
            journal.event(f"id {n}", value=bytes([n]) * 2000)
            journal.step(intents=1)
            journal.seal()
            put(store, journal)
        for found in (store.frames(), store.blob_hashes(), store.intents(), store.submissions()):
            seen = 0
            for _ in found:
                seen += 1
                assert store._environment._raw.readers() == "(no active readers)\n"
            assert seen >= 20
        assert list(store.frames()) == journal.frames


def test_a_slice_is_bounded_in_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ST-6."""
    monkeypatch.setattr(lmdb_journal, "SLICE_BYTES", 3000)
    with LmdbStore.create(folder) as store:
        journal = grown(store, 10, value=bytes(1000))
        assert len(store._frames._slice(2, 11)[0]) == 3
        assert list(store.frames()) == journal.frames


def test_stores_on_one_folder_share_it(folder: Path, tmp_path: Path) -> None:
    """ST-16: LMDB may have an environment open once in a process."""
    before = list(shared._open)
    (tmp_path / "alias").symlink_to(folder)
    writer = LmdbStore.create(folder)
    reader = LmdbStore.open(tmp_path / "alias", readonly=True)
    journal = grown(writer, 1)
    assert reader.head() == journal.head()

    writer.close()
    assert list(reader.frames()) == journal.frames
    with pytest.raises(AssertionError, match="opened for reading"):
        reader.meta_put("a", b"")
    second = LmdbStore.open(folder)
    journal.event()
    journal.seal()
    put(second, journal)
    assert reader.head() == journal.head()

    second.close()
    reader.close()
    assert shared._open == before
    assert read_all(folder) == "whole to 3"


def test_a_store_that_took_the_place_of_one_is_shared_too(folder: Path, tmp_path: Path) -> None:
    """ST-16: a reader follows the name of its folder, and LMDB may have the new one open once."""
    world(folder)
    with LmdbStore.open(folder, readonly=True) as reader:
        folder.rename(tmp_path / "old")
        journal = world(folder)
        assert reader.head() == journal.head()

        with LmdbStore.open(folder, readonly=True) as other:
            assert other.head() == journal.head()
        assert list(reader.frames()) == journal.frames
    assert not [environment for environment in shared._open if environment.folder == folder]


def test_a_writer_whose_folder_took_the_place_of_one_that_is_read_is_shared(
    folder: Path, tmp_path: Path
) -> None:
    """ST-16: the reader cannot open it a second time, and does not stand before the writer."""
    world(folder)
    other = tmp_path / "other"
    journal = world(other)
    with LmdbStore.open(folder, readonly=True) as reader, LmdbStore.open(other) as writer:
        folder.rename(tmp_path / "old")
        other.rename(folder)
        with pytest.raises(Unavailable, match="already open in this process"):
            reader.head()

        with LmdbStore.open(folder) as second:
            assert second.head() == writer.head() == journal.head()


def test_a_process_that_reads_cannot_also_write(folder: Path) -> None:
    """ST-16."""
    journal = world(folder)
    with LmdbStore.open(folder, readonly=True), pytest.raises(Unavailable) as caught:
        LmdbStore.open(folder)
    assert "this process has the store open for reading, and cannot also write to it" in str(
        caught.value
    )
    with LmdbStore.open(folder) as store:
        assert store.head() == journal.head()
        with pytest.raises(Refused, match="a store is here already, and open"):
            LmdbStore.create(folder)


def test_an_environment_opened_past_us_is_said(folder: Path) -> None:
    """ST-16."""
    world(folder)
    raw = lmdb.open(str(folder), map_size=1 << 30)
    with pytest.raises(Unavailable, match="already open in this process"):
        LmdbStore.open(folder)
    raw.close()


def test_a_copy_without_a_lock_file_is_read_and_left_as_it_is(folder: Path, tmp_path: Path) -> None:
    """ST-13."""
    journal = world(folder)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(folder / "data.mdb", copy)
    before = (copy / "data.mdb").read_bytes()

    assert read_all(copy) == "whole to 4"
    with LmdbStore.open(copy, readonly=True) as store:
        assert store.sync_reader_check() == 0
        assert list(store.frames()) == journal.frames

    assert [path.name for path in copy.iterdir()] == ["data.mdb"]
    assert (copy / "data.mdb").read_bytes() == before


def test_a_reader_of_a_copy_joins_a_writer_that_comes(folder: Path, tmp_path: Path) -> None:
    """ST-13: from then on it registers itself, so that its pages are not used again."""
    world(folder)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(folder / "data.mdb", copy)
    go, done = os.pipe(), os.pipe()

    with LmdbStore.open(copy, readonly=True) as reader:
        assert reader._environment._is_lockless
        before = reader.head()
        assert before is not None

    def act() -> str:
        with LmdbStore.open(copy, readonly=True) as store:
            store.head()
            was = store._environment._is_lockless
            os.write(go[1], b"x")
            os.read(done[0], 1)
            head = store.head()
            assert head is not None
            return f"{was} {store._environment._is_lockless} {head.seq}"

    pid = os.fork()
    if pid == 0:
        try:
            os.read(go[0], 1)
            with LmdbStore.open(copy) as store:
                journal = Journal(tip=_tip(store))
                journal.event()
                journal.seal()
                put(store, journal)
            os.write(done[1], b"x")
        finally:
            os._exit(0)
    assert in_child(act) == "True False 5"
    os.waitpid(pid, 0)


def _tip(store: LmdbStore) -> Tip:
    tip = Tip(world=WORLD)
    for frame in store.frames():
        tip = follow(tip, frame)
    return tip


# Damage


def alter(folder: Path, table: str, key: bytes, change: Callable[[bytes], bytes | None]) -> bytes:
    """Change a stored value behind the store's back; None deletes it. Return what it was."""
    raw = lmdb.open(str(folder), map_size=1 << 30, max_dbs=8)
    try:
        db = raw.open_db(table.encode(), create=False)
        with raw.begin(write=True, db=db) as txn:
            before = txn.get(key)
            assert before is not None
            after = change(before)
            if after is None:
                txn.delete(key)
            else:
                txn.put(key, after)
            return before
    finally:
        raw.close()


def key(seq: int) -> bytes:
    return seq.to_bytes(8, "big")


def test_an_altered_blob_is_found_when_it_is_read(folder: Path) -> None:
    """ST-21."""
    data = bytes(2000)
    with LmdbStore.create(folder) as store:
        grown(store, 1, value=data)
    alter(folder, "blobs", content_hash(data), lambda old: old[:-1] + b"\1")

    with LmdbStore.open(folder) as store:
        assert store.has_blob(content_hash(data))
        with pytest.raises(Damage) as caught:
            store.blob(content_hash(data))
    assert f"blob blake3:{content_hash(data).hex()} is altered: expected bytes of that hash" in str(
        caught.value
    )


def test_a_frame_that_is_missing_is_named(folder: Path) -> None:
    """ST-5."""
    world(folder, frames=4)
    middle = alter(folder, "frames", key(3), lambda _: None)
    with LmdbStore.open(folder) as store:
        frames = store.frames()
        assert [next(frames).header.first, next(frames).header.first] == [1, 2]
        with pytest.raises(Damage) as caught:
            next(frames)
        assert str(caught.value) == (
            f"{folder}: the frame with record 3 is missing: "
            "expected frames to record 5, as the head says (restore a backup)"
        )
        with pytest.raises(Damage, match="the frame with record 3 is missing"):
            store.frame_at(3)
        assert store.frame_at(2) is not None
    put_back(folder, key(3), middle)
    alter(folder, "frames", key(5), lambda _: None)
    with LmdbStore.open(folder) as store:
        with pytest.raises(Damage, match="the frame with record 5 is missing"):
            list(store.frames())
        with pytest.raises(Damage, match="the frame with record 5 is missing"):
            store.frame_at(5)
    alter(folder, "frames", key(1), lambda _: None)
    with (
        LmdbStore.open(folder) as store,
        pytest.raises(Damage, match="the frame with record 1 is missing"),
    ):
        next(store.frames())


def put_back(folder: Path, key: bytes, value: bytes) -> None:
    raw = lmdb.open(str(folder), map_size=1 << 30, max_dbs=8)
    db = raw.open_db(b"frames", create=False)
    with raw.begin(write=True, db=db) as txn:
        txn.put(key, value)
    raw.close()


def test_a_frame_that_cannot_be_read_is_named(folder: Path) -> None:
    """ST-5."""
    world(folder, frames=3)
    before = alter(folder, "frames", key(3), lambda old: old[:-1])
    with LmdbStore.open(folder) as store, pytest.raises(Damage) as caught:
        list(store.frames())
    assert str(caught.value).startswith(f"{folder}: frame 3: a frame is not canonical CBOR: ")

    alter(folder, "frames", key(3), lambda _: before)
    alter(folder, "frames", key(2), lambda _: before)
    with LmdbStore.open(folder) as store, pytest.raises(Damage) as caught:
        list(store.frames())
    assert "frame 2 is in another's place: expected first record 2, found first record 3" in str(
        caught.value
    )


@pytest.mark.parametrize(
    "harm",
    [
        lambda _: b"",
        lambda old: b"\xff" + old[1:],
        lambda old: old.replace(b"dlast\x02", b"dlast\x01"),
        lambda old: old.replace(b"efirst\x02", b"efirst\x18\x02"),
        lambda old: old.replace(b"efirst\x02", b"efirst\x03"),
    ],
)
def test_a_frame_whose_place_cannot_be_read_is_the_same_damage_as_bytes(
    folder: Path, harm: Callable[[bytes], bytes]
) -> None:
    """ST-5."""
    world(folder, frames=3)
    before = alter(folder, "frames", key(2), harm)
    assert harm(before) != before
    with LmdbStore.open(folder) as store:
        with pytest.raises(Damage) as whole:
            list(store.frames())
        with pytest.raises(Damage) as stored:
            list(map(read_frame, (frame.data for frame in store.stored_frames(1, 4))))
    assert str(stored.value).removeprefix(f"{folder}: frame 2: ") in str(whole.value)


def test_a_frame_after_the_head_stops_the_writer(folder: Path) -> None:
    """ST-2: a writer cannot continue from an older head with newer frames after it."""
    journal = world(folder, frames=1)
    old = journal.head().to_bytes()
    with LmdbStore.open(folder) as store:
        journal.event()
        journal.seal()
        put(store, journal)
    alter(folder, "system", b"head", lambda _: old)
    other = Journal(tip=journal.made[1].tip)
    other.start()
    other.seal()

    with LmdbStore.open(folder) as store:
        with pytest.raises(Damage, match="a frame at or after record 3 is stored already"):
            put(store, other)
        assert [frame.header.first for frame in store.frames()] == [1, 2]


def test_rows_that_are_out_of_order_are_damage_and_no_endless_scan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-17: if a page were in two places, a scan would read the same rows repeatedly."""
    monkeypatch.setattr(lmdb_rows, "SLICE_ROWS", 4)
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for n in range(10):
            journal.event(f"id {n}")
        journal.seal()
        put(store, journal)
    data = (folder / "data.mdb").read_bytes()
    (folder / "data.mdb").write_bytes(data.replace(b"id 7", b"id 3"))

    with LmdbStore.open(folder, readonly=True, looks=False) as store:
        with pytest.raises(Damage) as caught:
            list(store.submissions())
        assert str(caught.value).startswith(
            f"{folder}: the rows of submissions are out of order at 69642033 (the store's file "
        )


# Stores of earlier releases


def without(folder: Path, *tables: str) -> None:
    """Take tables away, as if the store had been made before they were known."""
    raw = lmdb.open(str(folder), map_size=1 << 30, max_dbs=8)
    for table in tables:
        db = raw.open_db(table.encode(), create=False)
        with raw.begin(write=True) as txn:
            txn.drop(db)
    raw.close()


LATER = ("notes", "erased", "deltas", "bases")


def test_a_table_that_an_earlier_release_did_not_know_is_empty(folder: Path) -> None:
    """ST-10a."""
    journal = world(folder)
    without(folder, *LATER)

    with LmdbStore.open(folder, readonly=True) as store:
        assert store.head() == journal.head()
        assert (store.note(2), store.erased(content_hash(b"")), list(store.erasures())) == (
            None,
            None,
            [],
        )
        with pytest.raises(Damage, match="is missing"):
            store.blob(content_hash(b"absent"))


def test_a_writer_makes_the_tables_that_are_missing(folder: Path) -> None:
    """ST-10a."""
    value = bytes(3000)
    with LmdbStore.create(folder) as store:
        journal = grown(store, 1, value=value)
    without(folder, *LATER)

    with LmdbStore.open(folder) as store:
        seq = journal.erase(content_hash(value))
        sealed = journal.seal()
        store.append(
            [sealed], journal.head(), expected=sealed.frame.header.prev, notes={seq: "a note"}
        )
        assert store.note(seq) == "a note"
        assert [row.seq for _, row in store.erasures()] == [seq]
        store.compact()
        assert store.note(seq) == "a note"


def test_a_reader_sees_a_table_that_a_writer_made_meanwhile(folder: Path) -> None:
    """ST-10a: also one that began before."""
    value = bytes(3000)
    with LmdbStore.create(folder) as store:
        journal = grown(store, 1, value=value)
    without(folder, *LATER)
    begun, done = os.pipe(), os.pipe()

    pid = os.fork()
    if pid == 0:
        try:
            os.read(begun[0], 1)
            with LmdbStore.open(folder) as store:
                journal.erase(content_hash(value))
                journal.seal()
                put(store, journal)
            os.write(done[1], b"x")
        finally:
            os._exit(0)

    def act() -> str:
        with LmdbStore.open(folder, readonly=True) as store:
            before = store.erased(content_hash(value))
            os.write(begun[1], b"x")
            os.read(done[0], 1)
            try:
                store.blob(content_hash(value))
            except Erased as erased:
                return f"{before} {erased} {store.erased(content_hash(value))}"
            return "there"

    found = in_child(act)
    os.waitpid(pid, 0)
    assert found == (
        f"None the value {hash_text(content_hash(value))} was erased by record 3 "
        "ErasedRow(seq=3, size=3000)"
    )


@pytest.mark.parametrize("table", ["system", "frames", "blobs", "intents", "submissions", "meta"])
@pytest.mark.parametrize("readonly", [False, True])
def test_a_table_that_every_release_knew_may_not_be_missing(
    folder: Path, table: str, readonly: bool
) -> None:
    """ST-10a."""
    world(folder)
    without(folder, table)
    with pytest.raises(Damage, match="not a whole AOS store: a table is missing"):
        LmdbStore.open(folder, readonly=readonly)


# The first look


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose file was read by a child first."""
    found: list[Path] = []
    walk = first_look._walk

    def noted(folder: Path, cut: tuple[int, int] | None) -> None:
        found.append(folder)
        walk(folder, cut)

    monkeypatch.setattr(first_look, "_walk", noted)
    return found


def test_a_file_that_is_as_it_was_closed_is_opened_at_once(folder: Path, looks: list[Path]) -> None:
    """ST-18b: also a copy that kept its time."""
    world(folder)
    with LmdbStore.open(folder) as store:
        assert not (folder / "closed").exists()
        assert store.head() is not None
    with LmdbStore.open(folder, readonly=True):
        assert (folder / "closed").exists()
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    read_all(copy)
    assert looks == []

    shutil.copyfile(folder / "data.mdb", copy / "data.mdb")
    read_all(copy)
    assert looks == [copy]


def test_a_file_whose_writer_was_killed_is_read_by_a_child_first(
    folder: Path, looks: list[Path]
) -> None:
    """ST-18b: a reader leaves no mark, the next writer does."""
    journal = world(folder)

    def dies() -> str:
        store = LmdbStore.open(folder)
        journal.event()
        journal.seal()
        put(store, journal)
        os.kill(os.getpid(), signal.SIGKILL)
        return "lives"

    assert in_child(dies) == "signal 9"
    assert read_all(folder) == read_all(folder) == "whole to 5"
    assert len(looks) == 2
    LmdbStore.open(folder).close()
    assert read_all(folder) == "whole to 5"
    assert len(looks) == 3


def test_a_writer_whose_commit_failed_leaves_no_mark(folder: Path, looks: list[Path]) -> None:
    """ST-18b."""
    journal = world(folder)
    with LmdbStore.open(folder) as store:
        FaultyEnvironment.under(store).fail_next(error(lmdb.Error, "it broke", 5))
        journal.event()
        journal.seal()
        with pytest.raises(CommitFailed):
            put(store, journal)
    assert not (folder / "closed").exists()
    assert read_all(folder) == "whole to 4"
    assert looks == [folder]


def test_a_process_that_joins_others_does_not_check_again(folder: Path, looks: list[Path]) -> None:
    """ST-18b: they have looked, and read it since."""
    world(folder)
    (folder / "closed").unlink()
    child = spawn("reader", str(folder))
    try:
        assert line(child.stdout) == "open"
        assert read_all(folder) == "whole to 4"
        assert looks == []
    finally:
        end(child)
    assert read_all(folder) == "whole to 4"
    assert looks == [folder]


@pytest.mark.parametrize("readonly", [False, True])
def test_only_who_has_looked_is_relied_on(folder: Path, readonly: bool) -> None:
    """ST-18b: not who took the file for whole, as the child of verify does; and not for ever."""

    def asked() -> str:
        return in_child(lambda: str(first_look._is_vouched_for(folder)))

    world(folder)
    with LmdbStore.open(folder, readonly=readonly, looks=False):
        assert asked() == "False"
    with LmdbStore.open(folder, readonly=readonly) as store:
        assert asked() == "True"
        if not readonly:
            store.compact()
            assert asked() == "True"
    assert asked() == "False"


@pytest.mark.parametrize("readonly", [False, True])
def test_a_store_that_would_kill_its_opener_is_damage(folder: Path, readonly: bool) -> None:
    """ST-18a: each page in turn is garbage, and no process dies of it."""
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for n in range(12):
            journal.event(f"id {n}", bytes([n]) * (700 * n % 9000))
            journal.step(intents=2)
            journal.seal()
            put(store, journal)
    whole = (folder / "data.mdb").read_bytes()
    found = {"whole": 0, "Damage": 0}
    killed = 0
    for page in range(0, len(whole) // 4096, 4):
        data = bytearray(whole)
        data[page * 4096 + 16 : page * 4096 + 64] = b"\xff" * 48
        (folder / "data.mdb").write_bytes(data)
        (folder / "closed").unlink(missing_ok=True)

        def act() -> str:
            LmdbStore.open(folder, readonly=readonly).close()
            return read_all(folder)

        said = in_child(act)
        assert said.startswith(("Damage: ", "whole to 25")), (page, said)
        found[said[:5] if said[0] == "w" else said[:6]] += 1
        killed += "it kills the process that reads it (SIG" in said
    assert found["Damage"] > 3
    assert found["whole"] > 0, "no page was free"
    assert killed > 0, "nothing would have killed"


def test_a_child_that_cannot_look_says_nothing_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-18a."""
    world(folder)
    for executable in ("/no/such/program", "/bin/false"):
        (folder / "closed").unlink(missing_ok=True)
        monkeypatch.setattr(sys, "executable", executable)
        assert read_all(folder) == "whole to 4"


def test_a_file_that_cannot_be_read_to_its_end_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-18a: the check does not wait forever for a disk that does not answer."""
    world(folder)
    (folder / "closed").unlink()
    monkeypatch.setattr(first_look, "WALK_S", 0.0)
    monkeypatch.setattr(first_look, "WALK_BYTES_S", 1 << 40)
    with pytest.raises(Unavailable, match="could not be read to its end in 0 s"):
        LmdbStore.open(folder)


def test_a_damaged_head_or_row_is_named(folder: Path) -> None:
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        journal.event("name")
        (intent,) = journal.step(intents=1)
        journal.seal()
        put(store, journal)
    alter(folder, "system", b"head", lambda old: old[1:])
    alter(folder, "intents", intent, lambda old: old[:-1] + b"\xf6")
    alter(folder, "submissions", b"name", lambda old: old[:-1])

    with LmdbStore.open(folder) as store:
        with pytest.raises(Damage, match="the head: the head is not"):
            store.head()
        with pytest.raises(Damage, match=f"intent blake3:{intent.hex()}: an intent's row is none"):
            store.intent(intent)
        with pytest.raises(Damage, match="submission b'name': a submission's row: expected 40"):
            store.submission("name")
        with pytest.raises(Damage, match="submission b'name': a submission's row: expected 40"):
            list(store.submissions())


@pytest.fixture
def whole(folder: Path) -> bytes:
    """The data file of a store with a little of everything."""
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for n in range(12):
            journal.event(f"id {n}", bytes([n]) * (3000 * n % 10_000))
            intents = journal.step(intents=2)
            journal.receipt(intents[0], abandoned=intents[1:])
            journal.seal()
            put(store, journal)
    assert read_all(folder) == "whole to 37"
    return (folder / "data.mdb").read_bytes()


def outcome(folder: Path, data: bytes, *, looks: bool = True) -> str:
    """Return the outcome of reading these bytes as a store, in a child process."""
    (folder / "data.mdb").write_bytes(data)
    return in_child(lambda: read_all(folder, looks=looks))


def test_a_file_that_was_cut_off_is_damage(folder: Path, whole: bytes) -> None:
    """ST-18b: it is found before LMDB dies of it."""
    sizes = [0, 1, 100, 4095, 4096, 5000, 8191, 8192, 9000]
    sizes += [*range(12_288, len(whole), 8192), len(whole) - 4096, len(whole) - 1]
    for size in sizes:
        found = outcome(folder, whole[:size])
        # The last pages may be free; the store is whole without them.
        if not (found == "whole to 37" and size >= len(whole) - 3 * 4096):
            assert found.startswith("Damage: "), (size, found)
    assert outcome(folder, whole) == "whole to 37"


def test_a_file_that_is_no_store_is_damage(folder: Path, whole: bytes) -> None:
    """ST-17."""
    assert "no meta page of LMDB 0.9" in outcome(folder, b"not a database, but long enough" * 1000)
    assert outcome(folder, bytes(len(whole))).startswith("Damage: ")
    assert outcome(folder, os.urandom(100_000)).startswith("Damage: ")


def test_flipped_bits_end_in_damage_or_in_nothing_that_matters(folder: Path, whole: bytes) -> None:
    """ST-17: never in an error of LMDB, and never in other values than were written.

    Most of the file is unused room in pages, where a flip changes nothing.
    """
    chance = random.Random(11)
    written = [n for n, byte in enumerate(whole) if byte]
    damaged = 0
    for _ in range(80):
        data = bytearray(whole)
        data[chance.choice(written)] ^= 1 << chance.randrange(8)

        found = outcome(folder, bytes(data), looks=False)

        # A head that was flipped may still be a head: its signature is for verify to check.
        assert found.startswith(("Damage: ", "whole to ", "signal ")), found
        damaged += found.startswith("Damage: ")
        if found.startswith("signal "):
            (folder / "data.mdb").write_bytes(data)
            assert structure_problems(folder), "LMDB died of a file that looks sound"
    assert damaged > 20


def test_the_structure_is_walked_without_lmdb(folder: Path, whole: bytes) -> None:
    """ST-19."""
    assert structure_problems(folder) == []
    found = 0
    for page in range(0, len(whole), 4096):
        (folder / "data.mdb").write_bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
        if structure_problems(folder):
            found += 1
        else:
            # A free page, or one of those in the middle of a long value: the hashes are for those.
            assert in_child(lambda: read_all(folder)).startswith(("whole to 37", "Damage: "))
    assert found > 10
    (folder / "data.mdb").write_bytes(b"nothing")
    assert structure_problems(folder) != []


def test_a_frame_of_another_world_is_not_taken(folder: Path) -> None:
    """ST-2."""
    with LmdbStore.create(folder) as store:
        journal = grown(store, 1)
        frame, tip = seal(
            Tip(
                world=content_hash(b"another"), seq=2, frame=journal.tip.frame, log=journal.tip.log
            ),
            [b"\xa0"],
            bytes(32),
        )
        made = journal.made[-1]
        other = Journal(tip=tip, made=[type(made)(
            frame=frame, tip=tip, blobs={},
            opened_intents=(), settled=(), abandoned=(), submissions=(),
        )])  # fmt: skip
        with pytest.raises(Damage, match="does not end where this process left it"):
            put(store, other)
