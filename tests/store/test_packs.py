"""Large blobs are in their own files, written and removed with their rows (ST-60 to ST-67)."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from aos.core.journal.frame import NO_FRAME
from aos.errors import Damage, Erased, Unavailable
from aos.store.errors import CommitFailed, NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.packs import FOLDER_NAME, PACKED_BYTES, Packs
from aos.store.plain_files import PlainFolder
from aos.store.rows import ErasedRow, PackedRow
from aos.values.digests import Hash, content_hash, hash_text
from tests.store.children import spawn
from tests.store.disk import SmallDisk
from tests.store.faulty import FaultyEnvironment, error
from tests.store.journal import Journal, grown, put
from tests.store.packer import STEPS, group, large

A, B, C = large("a"), large("b"), large("c")
SMALL = bytes(PACKED_BYTES - 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    with LmdbStore.create(tmp_path / "store") as made:
        yield made


def packs(store_folder: Path) -> set[str]:
    folder = store_folder / FOLDER_NAME
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def names(*blobs: bytes) -> set[str]:
    return {content_hash(each).hex() for each in blobs}


def blobs(*data: bytes) -> dict[Hash, bytes]:
    return {content_hash(each): each for each in data}


def with_values(store: LmdbStore, *values: bytes) -> Journal:
    journal = grown(store, 1)
    for value in values:
        journal.event(value=value)
    journal.seal()
    put(store, journal)
    return journal


def test_a_blob_at_the_limit_has_a_file_and_a_smaller_one_has_none(store: LmdbStore) -> None:
    """ST-60."""
    limit = bytes(PACKED_BYTES)

    store.put_blobs(blobs(limit, SMALL, b"x"))

    assert packs(store.folder) == names(limit)
    assert [store.blob(each) for each in blobs(limit, SMALL, b"x")] == [limit, SMALL, b"x"]
    assert all(store.has_blob(each) for each in blobs(limit, SMALL, b"x"))
    assert list(store.blob_hashes()) == sorted(blobs(limit, SMALL, b"x"))


def test_a_group_with_large_values_is_read_back(store: LmdbStore) -> None:
    """ST-60, ST-61."""
    journal = with_values(store, A, b"y" * 5000, B)

    assert packs(store.folder) == names(A, B)
    assert list(store.frames()) == journal.frames
    store.close()
    with LmdbStore.open(store.folder, readonly=True) as again:
        assert [again.blob(each) for each in blobs(A, B)] == [A, B]
        assert again.size_bytes() > 2 * PACKED_BYTES
        assert again.size_bytes() - (store.folder / "data.mdb").stat().st_size == len(A) + len(B)


def test_the_store_file_does_not_grow_with_large_blobs(store: LmdbStore) -> None:
    """ST-60."""
    grown(store, 1)
    before = (store.folder / "data.mdb").stat().st_size

    store.put_blobs(blobs(A, B, C))

    assert (store.folder / "data.mdb").stat().st_size - before < 64 * 1024


def test_packs_are_for_their_owner_alone(store: LmdbStore) -> None:
    """ST-11."""
    store.put_blobs(blobs(A))

    folder = store.folder / FOLDER_NAME
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / content_hash(A).hex()).stat().st_mode) == 0o600


def test_a_blob_stored_again_is_not_written_again(store: LmdbStore) -> None:
    """ST-20."""
    store.put_blobs(blobs(A))
    path = store.folder / FOLDER_NAME / content_hash(A).hex()
    before = path.stat()

    store.put_blobs(blobs(A, B))

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_pack_is_synced_and_its_name_too_before_the_transaction(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-61: at the first write of the transaction nothing of a pack is still to come."""
    journal = grown(store, 1)
    journal.event(value=A)
    journal.seal()
    synced: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        fsync(fd)
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    faulty = FaultyEnvironment.under(store)
    faulty.fail_next(error(lmdb.Error, "stopped here", errno.EPERM), where="begin")
    monkeypatch.setattr(os, "fsync", noted)
    with pytest.raises(CommitFailed):
        put(store, journal)

    assert synced == [store.folder.name, content_hash(A).hex(), FOLDER_NAME]


# Erased


def test_an_erased_blob_has_no_file_any_more_and_says_by_whom(store: LmdbStore) -> None:
    """ST-22, ST-63: without compacting."""
    journal = with_values(store, A, B)
    seq = journal.erase(content_hash(A))
    journal.seal()

    put(store, journal)

    assert packs(store.folder) == names(B)
    assert store.erased(content_hash(A)) == ErasedRow(seq=seq, size=len(A))
    with pytest.raises(Erased, match=f"was erased by record {seq}"):
        store.blob(content_hash(A))
    assert not store.has_blob(content_hash(A))
    assert list(store.blob_hashes()) == list(blobs(B))


def test_a_blob_that_comes_again_after_it_was_erased_is_there(store: LmdbStore) -> None:
    """ST-23: later, and in the same group."""
    journal = with_values(store, A)
    journal.erase(content_hash(A))
    journal.seal()
    journal.event(value=A)
    journal.seal()

    put(store, journal, *journal.made[-2:])

    assert packs(store.folder) == names(A)
    assert store.blob(content_hash(A)) == A
    assert store.erased(content_hash(A)) is None

    journal.erase(content_hash(A))
    journal.seal()
    put(store, journal)
    assert packs(store.folder) == set()
    store.put_blobs(blobs(A))
    assert store.blob(content_hash(A)) == A


def test_a_blob_that_came_and_was_erased_in_one_group_leaves_no_file(store: LmdbStore) -> None:
    journal = grown(store, 1)
    journal.event(value=A)
    journal.seal()
    seq = journal.erase(content_hash(A))
    journal.seal()

    put(store, journal, *journal.made[-2:])

    assert packs(store.folder) == set()
    assert store.erased(content_hash(A)) == ErasedRow(seq=seq, size=len(A))


def test_a_large_blob_of_an_earlier_release_stays_where_it_is(store: LmdbStore) -> None:
    """ST-60: it is read, found, erased and replaced like any other."""
    journal = grown(store, 1)
    with store._environment.write(0) as txn:
        txn.put(content_hash(A), A, db=store._environment.tables["blobs"])

    store.put_blobs(blobs(A))

    assert packs(store.folder) == set()
    assert store.blob(content_hash(A)) == A
    assert list(store.blob_hashes()) == list(blobs(A))
    journal.erase(content_hash(A))
    journal.seal()
    journal.event(value=A)
    journal.seal()
    put(store, journal, *journal.made[-2:])
    assert packs(store.folder) == names(A)
    assert store.blob(content_hash(A)) == A


# Damaged


def test_a_damaged_pack_is_named_with_what_is_wrong(store: LmdbStore) -> None:
    """ST-64."""
    store.put_blobs(blobs(A))
    hash, path = content_hash(A), store.folder / FOLDER_NAME / content_hash(A).hex()

    def said() -> str:
        with pytest.raises(Damage) as caught:
            store.blob(hash)
        return str(caught.value)

    path.write_bytes(A[:-1])
    assert said() == (
        f"{path}: blob {hash_text(hash)} is cut off: expected {len(A)} bytes, "
        f"found {len(A) - 1} bytes (restore this file from a backup)"
    )
    path.write_bytes(A + b"a")
    assert "is too long: expected" in said()
    path.write_bytes(A[:-1] + b"b")
    assert f"is altered: expected bytes of that hash, found {len(A)} bytes of" in said()
    path.unlink()
    assert said() == (
        f"{path}: blob {hash_text(hash)} is missing (restore this file from a backup)"
    )
    path.mkdir()
    assert f"{path}: nothing of a world is reached through a link" in said()
    path.rmdir()
    path.write_bytes(A)
    assert store.blob(hash) == A


def test_a_row_of_a_pack_that_is_damaged_is_said(store: LmdbStore) -> None:
    store.put_blobs(blobs(A))
    with store._environment.write(0) as txn:
        txn.put(content_hash(A), b"\x00" * 7, db=store._environment.tables["packed"])

    with pytest.raises(Damage, match="a packed blob's row: expected 8 bytes, found 7"):
        store.blob(content_hash(A))
    assert PackedRow.from_bytes(PackedRow(size=2**40).to_bytes()).size == 2**40


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_a_pack_that_may_not_be_read_is_no_damage(tmp_path: Path) -> None:
    made = Packs(tmp_path)
    made.write(blobs(A))
    made.path(content_hash(A)).chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(Unavailable, match="no permission to read a blob"):
            made.read(content_hash(A), len(A))
    finally:
        os.seteuid(0)


# Failures, and files that a crash leaves


def test_a_transaction_that_fails_leaves_no_pack_and_passes_later(store: LmdbStore) -> None:
    """ST-4, ST-62."""
    journal = with_values(store, B)
    faulty = FaultyEnvironment.under(store)
    journal.event(value=A)
    journal.seal()

    for where in ("begin", "put", "commit"):
        faulty.fail_next(error(lmdb.DiskError, "full", errno.ENOSPC), where=where)
        with pytest.raises(NoRoom):
            put(store, journal)
        assert packs(store.folder) == names(B)
        assert not store.has_blob(content_hash(A))
    put(store, journal)

    assert [store.blob(each) for each in blobs(A, B)] == [A, B]


def test_an_erasure_that_fails_keeps_the_pack(store: LmdbStore) -> None:
    """ST-63."""
    journal = with_values(store, A)
    faulty = FaultyEnvironment.under(store)
    journal.erase(content_hash(A))
    journal.seal()
    journal.event(value=A)
    journal.seal()

    faulty.fail_next(error(lmdb.DiskError, "full", errno.ENOSPC))
    with pytest.raises(NoRoom):
        put(store, journal, *journal.made[-2:])

    assert store.blob(content_hash(A)) == A
    put(store, journal, *journal.made[-2:])
    assert store.blob(content_hash(A)) == A


def test_a_commit_without_packs_opens_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(PlainFolder, "at", opened.append)

    Packs(tmp_path).remove(set())

    assert opened == []


def test_a_commit_with_unknown_outcome_leaves_its_packs_to_the_next_writer(
    store: LmdbStore,
) -> None:
    """ST-62: it may count. Here it does not."""
    journal = with_values(store, B)
    faulty = FaultyEnvironment.under(store)
    journal.event(value=A)
    journal.seal()
    faulty.fail_next(error(lmdb.Error, "it broke", errno.EIO))
    with pytest.raises(CommitFailed):
        put(store, journal)
    assert packs(store.folder) == names(A, B)

    store.close()
    with LmdbStore.open(store.folder) as again:
        assert packs(again.folder) == names(B)
        put(again, journal)
        assert again.blob(content_hash(A)) == A


def test_a_disk_that_fails_under_a_pack_ends_the_store(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-62: a sync that failed once is not believed when it succeeds."""
    journal = with_values(store, B)
    journal.event(value=A)
    journal.seal()

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(CommitFailed, match=r"the commit failed: .* Input/output error"):
            put(store, journal)

    assert packs(store.folder) == names(B)
    with pytest.raises(CommitFailed, match="an earlier commit failed"):
        store.put_blobs(blobs(C))
    with pytest.raises(CommitFailed, match="an earlier commit failed"):
        store.put_blobs(blobs(b"small"))


def test_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    """ST-62."""
    with SmallDisk(tmp_path, megabytes=6) as disk, LmdbStore.create(disk.path / "store") as store:
        journal = grown(store, 1)
        disk.fill(leave=PACKED_BYTES + 600_000)
        journal.event(value=A)
        journal.event(value=B)
        journal.seal()

        for _ in range(3):
            with pytest.raises(NoRoom, match="no room for large blobs") as caught:
                put(store, journal)
            assert caught.value.needed_bytes == len(A) + len(B)
            assert packs(store.folder) == set()
        disk.make_room()
        put(store, journal)

        assert [store.blob(each) for each in blobs(A, B)] == [A, B]


def test_leftovers_of_a_crash_are_removed_by_a_writer_and_not_by_a_reader(tmp_path: Path) -> None:
    """ST-65."""
    folder = tmp_path / "store"
    with LmdbStore.create(folder) as store:
        with_values(store, A)
    left = [folder / FOLDER_NAME / name for name in (content_hash(B).hex(), "note.txt", "00")]
    for each in left:
        each.write_bytes(B[:100])

    with LmdbStore.open(folder, readonly=True) as store:
        assert store.blob(content_hash(A)) == A
        assert all(each.exists() for each in left)
    with LmdbStore.open(folder) as store:
        assert packs(folder) == names(A)
        assert store.blob(content_hash(A)) == A


def check(folder: Path) -> int:
    """The store is the packer's journal up to some group, with its blobs; return which group."""
    if not (folder / "data.mdb").exists():
        return 0
    with LmdbStore.open(folder) as store:
        head, journal = store.head(), Journal()
        kept: dict[Hash, bytes] = {}
        for step in range(STEPS):
            if head is None or journal.tip.seq == head.seq:
                break
            for made in group(journal, step):
                for each in made.erased:
                    kept.pop(each, None)
                kept.update(made.blobs)
        assert head is None or head == journal.head()
        assert list(store.frames()) == journal.frames
        assert packs(folder) == {each.hex() for each in kept}
        assert list(store.blob_hashes()) == sorted(kept)
        assert all(store.blob(each) == data for each, data in kept.items())
        return len(journal.made)


CALLS = "openat,mkdirat,write,fsync,fdatasync,unlinkat"


@pytest.mark.usefixtures("strace")
def test_a_writer_may_be_killed_at_any_call(tmp_path: Path) -> None:
    """ST-65: a row has its file, and a file that has none is gone once a writer has come."""
    folder = tmp_path / "store"
    place = folder / FOLDER_NAME
    watch = [folder, place, *(place / each for each in sorted(names(A, B, C)))]
    came = set()
    for nth in range(1, 60):
        inject = f"{CALLS}:signal=SIGKILL:when={nth}"
        paths = [str(each) for path in watch for each in ("-P", path)]
        child = spawn("packer", str(folder), before=(
            "strace", "-f", "-o", "/dev/null", *paths, f"--inject={inject}",
        ))  # fmt: skip
        out, said = child.communicate()
        came.add(check(folder))
        if child.returncode == 0:
            break
        assert child.returncode == -9, said
        if check(folder) == STEPS or nth % 7 == 0:
            _start_again(folder)
    assert child.returncode == 0, "it never came to its end"
    assert len(came) > 2, "it was killed in one place only"
    assert out is not None


def _start_again(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    folder.rmdir()


# Concurrent readers


def test_readers_continue_while_packs_come_and_go(tmp_path: Path) -> None:
    """ST-66: a reader gets the whole blob, or that it was erased, and never damage."""
    folder = tmp_path / "store"
    with LmdbStore.create(folder) as store:
        journal = with_values(store, A)
        done = threading.Event()
        seen: list[str] = []

        def read() -> None:
            while not done.is_set():
                try:
                    assert store.blob(content_hash(A)) == A
                    seen.append("whole")
                except Erased:
                    seen.append("erased")
                except BaseException as problem:  # noqa: BLE001  # told by the test
                    seen.append(f"{type(problem).__name__}: {problem}")
                    return

        readers = [threading.Thread(target=read) for _ in range(2)]
        for each in readers:
            each.start()
        for _ in range(25):
            journal.erase(content_hash(A))
            journal.seal()
            put(store, journal)
            journal.event(value=A)
            journal.seal()
            put(store, journal)
        done.set()
        for each in readers:
            each.join()

    assert set(seen) <= {"whole", "erased"}
    assert "whole" in seen


def test_a_reader_opened_before_the_first_pack_finds_it(tmp_path: Path) -> None:
    """ST-10a, ST-66: also where the table was not there yet."""
    folder = tmp_path / "store"
    with LmdbStore.create(folder) as store:
        grown(store, 1)
    env = lmdb.open(str(folder), max_dbs=16)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(b"packed", txn=txn))
    env.close()
    child = spawn("blob_reader", str(folder), content_hash(A).hex())
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "open\n"
    with LmdbStore.open(folder) as store:
        store.put_blobs(blobs(A))

        out, said = child.communicate("\n", timeout=120)

    assert out == f"{len(A)}\n", said


def test_compacting_keeps_packs_and_their_rows(store: LmdbStore) -> None:
    """ST-67."""
    journal = with_values(store, A, B)
    store.compact()

    assert packs(store.folder) == names(A, B)
    assert [store.blob(each) for each in blobs(A, B)] == [A, B]
    journal.erase(content_hash(A))
    journal.seal()
    put(store, journal)
    assert packs(store.folder) == names(B)


def test_a_store_is_made_where_packs_were_left(tmp_path: Path) -> None:
    """ST-11: an interrupted making is made again."""
    folder = tmp_path / "store"
    Packs(_made(folder)).write(blobs(A))

    with LmdbStore.create(folder) as store:
        assert packs(folder) == set()
        journal = Journal()
        journal.genesis()
        store.append(journal.made, journal.head(), expected=NO_FRAME)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
