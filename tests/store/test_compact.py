"""Compacting leaves in the file nothing but the rows, whenever it is killed (ST-50 to ST-53)."""

from __future__ import annotations

import errno
from pathlib import Path

import lmdb
import pytest

from aos.errors import Damage, Unavailable
from aos.store import compact
from aos.store.errors import NoRoom
from aos.store.first_look import COMPACT_NAME
from aos.store.lmdb_store import LmdbStore
from aos.store.plain_files import PlainFolder
from aos.values.digests import content_hash
from tests.store.children import ask, end, line, spawn
from tests.store.disk import SmallDisk
from tests.store.faulty import error
from tests.store.journal import Journal, grown, put, world

SIZES = (1500, 3000, 5000, 100_000)
"""Within a leaf page, in a page of its own, in two, in many."""

KEPT = [bytes([n]) * (2100 + n) for n in range(1, 40)]


def secret(size: int) -> bytes:
    return (f"secret of {size} bytes " * size).encode()[:size]


def piece(size: int) -> bytes:
    """The bytes to search for: a part of the value that occurs within each of its pages."""
    return secret(size)[-200:]


def with_secrets(folder: Path) -> Journal:
    """A store that held values of all sizes, between others; they are erased."""
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for value in [*map(secret, SIZES), *KEPT]:
            journal.event(value=value)
            journal.seal()
            put(store, journal)
        assert found_in(folder) == set(SIZES)
        for size in SIZES:
            journal.erase(content_hash(secret(size)))
        journal.seal()
        put(store, journal)
    return journal


def found_in(folder: Path, name: str = "data.mdb") -> set[int]:
    data = (folder / name).read_bytes()
    return {size for size in SIZES if piece(size) in data}


def check(folder: Path, journal: Journal) -> None:
    with LmdbStore.open(folder, readonly=True) as store:
        assert store.head() == journal.head()
        assert list(store.frames()) == journal.frames
        assert [store.blob(content_hash(each)) for each in KEPT] == KEPT
        assert [row.size for _, row in store.erasures()] != []


def test_the_bytes_of_an_erased_value_are_not_in_the_file_any_more(tmp_path: Path) -> None:
    """ST-50, ST-51: until then free pages may hold them, but no one reads these pages."""
    folder = tmp_path / "store"
    journal = with_secrets(folder)
    assert found_in(folder)
    before = (folder / "data.mdb").stat().st_size

    with LmdbStore.open(folder) as store:
        store.compact()
        assert found_in(folder) == set()
        assert store.size_bytes() < before

    assert found_in(folder) == set()
    assert sorted(each.name for each in folder.iterdir()) == ["closed", "data.mdb", "lock.mdb"]
    assert oct((folder / "data.mdb").stat().st_mode & 0o777) == "0o600"
    check(folder, journal)


def test_a_copy_as_lmdb_makes_it_would_not_do(tmp_path: Path) -> None:
    """ST-50: behind a value, pages keep earlier bytes of that memory, and are copied whole."""
    folder = tmp_path / "store"
    (tmp_path / "copy").mkdir()
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for value in (secret(3000), b"a" * 2100, b"b" * 2100, b"c" * 2100):
            journal.event(value=value)
            journal.seal()
            put(store, journal)
        journal.erase(content_hash(secret(3000)))
        journal.seal()
        put(store, journal)
        store._environment._raw.copy(str(tmp_path / "copy"), compact=True)
        assert found_in(tmp_path / "copy") == {3000}

        store.compact()
        assert found_in(folder) == set()


@pytest.mark.parametrize("commit_bytes", [1, 10_000, 1 << 30])
def test_a_large_store_is_copied_in_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_bytes: int
) -> None:
    """ST-52: but in no more than it has had itself."""
    monkeypatch.setattr(compact, "COMMIT_BYTES", commit_bytes)
    folder = tmp_path / "store"
    journal = with_secrets(folder)
    with LmdbStore.open(folder) as store:
        before = store._environment._raw.info()["last_txnid"]
        store.compact()
        assert store._environment._raw.info()["last_txnid"] <= before
    assert found_in(folder) == set()
    check(folder, journal)


@pytest.mark.parametrize("size", [0, 1])
def test_a_store_with_hardly_anything_in_it_is_compacted(tmp_path: Path, size: int) -> None:
    """ST-52: the fewest transactions that a world's store can have had."""
    folder = tmp_path / "store"
    journal = world(folder, frames=size)
    for _ in range(3):
        with LmdbStore.open(folder) as store:
            before = store._environment._raw.info()["last_txnid"]
            store.compact()
            assert store._environment._raw.info()["last_txnid"] <= before
            assert store.head() == journal.head()
    with LmdbStore.open(folder) as store:
        journal.event()
        journal.seal()
        put(store, journal)
    with LmdbStore.open(folder, readonly=True) as store:
        assert list(store.frames()) == journal.frames


@pytest.mark.parametrize("commits", [0, 1], ids=["even", "odd"])
def test_readers_of_other_processes_continue_in_the_new_file(tmp_path: Path, commits: int) -> None:
    """ST-53: whichever meta page the number of transactions, which they share, points at."""
    folder = tmp_path / "store"
    journal = world(folder, frames=3)
    child = spawn("reader", str(folder))
    try:
        assert line(child.stdout) == "open"
        assert ask(child, "?") == f"{journal.tip.seq} {len(journal.frames)}"
        with LmdbStore.open(folder) as store:
            for _ in range(commits):
                journal.event()
                journal.seal()
                put(store, journal)
            for _ in range(3):
                store.compact()
                assert store.head() == journal.head()
                assert ask(child, "?") == f"{journal.tip.seq} {len(journal.frames)}"
                journal.event(value=b"x" * 5000)
                journal.seal()
                put(store, journal)
                assert ask(child, "?") == f"{journal.tip.seq} {len(journal.frames)}"
        with LmdbStore.open(folder) as store:
            assert store.head() == journal.head()
            assert list(store.frames()) == journal.frames
        assert ask(child, "?") == f"{journal.tip.seq} {len(journal.frames)}"
    finally:
        end(child)


def test_a_process_that_reads_the_old_file_joins_those_of_the_new_one(tmp_path: Path) -> None:
    """ST-53, ST-16: also when it opens the store a second time before it has looked again."""
    folder = tmp_path / "store"
    journal = world(folder)
    with LmdbStore.open(folder, readonly=True) as reader:
        assert reader.head() == journal.head()
        child = spawn("compacter", str(folder))
        out, said = child.communicate()
        assert out == "compacted\n", said
        with LmdbStore.open(folder, readonly=True) as second:
            assert second.head() == reader.head() == journal.head()
            assert list(reader.frames()) == list(second.frames()) == journal.frames


def test_a_reader_of_this_process_keeps_it_from_being_compacted(tmp_path: Path) -> None:
    """ST-53."""
    folder = tmp_path / "store"
    world(folder)
    with LmdbStore.open(folder) as store:
        before = (folder / "data.mdb").stat().st_ino
        with LmdbStore.open(folder, readonly=True), pytest.raises(Unavailable) as caught:
            store.compact()
        assert "has the store open elsewhere too, and cannot compact it" in str(caught.value)
        assert (folder / "data.mdb").stat().st_ino == before
        store.compact()
        assert (folder / "data.mdb").stat().st_ino != before
        with LmdbStore.open(folder, readonly=True) as reader:
            assert reader.head() == store.head()


def test_leftovers_of_a_killed_compaction_are_removed(tmp_path: Path) -> None:
    """ST-52: they may contain values erased since."""
    folder = tmp_path / "store"
    journal = world(folder)
    (folder / COMPACT_NAME).write_bytes(secret(3000))

    with LmdbStore.open(folder, readonly=True) as store:
        assert store.head() == journal.head()
    assert (folder / COMPACT_NAME).exists()
    with LmdbStore.open(folder) as store:
        assert not (folder / COMPACT_NAME).exists()
        assert store.head() == journal.head()


CALLS = "openat,unlinkat,writev,pwrite64,fdatasync,fsync,renameat"


@pytest.mark.usefixtures("strace")
def test_compacting_may_be_killed_at_any_call(tmp_path: Path) -> None:
    """ST-52: the file is then the old one or the new one, and whole."""
    folder = tmp_path / "store"
    journal = with_secrets(folder)
    sides = {"old": 0, "new": 0}
    for nth in (*range(1, 6), *range(6, 200, 2)):
        inject = f"{CALLS}:signal=SIGKILL:when={nth}"
        watch = [each for name in ("", "data.mdb", COMPACT_NAME) for each in ("-P", folder / name)]
        trace = ("strace", "-f", "-o", "/dev/null", *map(str, watch), f"--inject={inject}")
        child = spawn("compacter", str(folder), before=trace)
        out, said = child.communicate()

        check(folder, journal)
        if "compacted" in out:
            assert child.returncode == 0, said
            break
        sides["new" if found_in(folder) == set() else "old"] += 1
        if sides["new"]:
            break
    assert sides["old"] > 3, "no kill came before the new file replaced the old one"
    with LmdbStore.open(folder) as store:
        store.compact()
    assert found_in(folder) == set()
    check(folder, journal)


def test_without_room_for_a_copy_everything_stays(tmp_path: Path) -> None:
    """ST-50: and it can be done once there is room."""
    with SmallDisk(tmp_path, megabytes=2) as disk:
        folder = disk.path / "store"
        journal = with_secrets(folder)
        disk.fill(leave=100_000)
        with LmdbStore.open(folder) as store:
            with pytest.raises(NoRoom, match="no room for a compact copy"):
                store.compact()
            assert not (folder / COMPACT_NAME).exists()
            assert list(store.frames()) == journal.frames

            disk.make_room()
            store.compact()
        assert found_in(folder) == set()
        check(folder, journal)


def test_a_row_that_cannot_be_read_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """ST-50."""
    folder = tmp_path / "store"
    with_secrets(folder)
    before = (folder / "data.mdb").read_bytes()
    with LmdbStore.open(folder) as store:

        def fail(*_: object, **__: object) -> None:
            (folder / COMPACT_NAME).write_bytes(b"half")
            raise error(lmdb.CorruptedError, "MDB_CORRUPTED", -30796)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("aos.store.environment.copy_rows", fail)
            with pytest.raises(Damage, match="the store cannot be read: MDB_CORRUPTED"):
                store.compact()
        assert not (folder / COMPACT_NAME).exists()
        assert (folder / "data.mdb").read_bytes() == before
        store.compact()


def test_a_copy_that_cannot_take_the_files_place_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-50: and the open store continues to work."""
    folder = tmp_path / "store"
    journal = with_secrets(folder)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with LmdbStore.open(folder) as store:
        with monkeypatch.context() as patch:
            patch.setattr(PlainFolder, "rename", fail)
            with pytest.raises(Unavailable, match="cannot take the place of the file: Input"):
                store.compact()
        assert not (folder / COMPACT_NAME).exists()
        journal.event()
        journal.seal()
        put(store, journal)
        store.compact()
    assert found_in(folder) == set()
    check(folder, journal)
