"""A failed commit leaves nothing, and reports whether the group may be retried (ST-4)."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from aos.errors import Damage, Unavailable
from aos.store import environment, lmdb_binding
from aos.store.errors import CommitFailed, NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.room import has_room
from aos.values.digests import content_hash
from tests.run_seed import in_turns
from tests.store.children import ask, end, in_child, line, spawn
from tests.store.disk import SmallDisk
from tests.store.faulty import FaultyEnvironment, error
from tests.store.journal import Journal, grown, put, world

PLENTY = 1 << 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    with LmdbStore.create(tmp_path / "store") as made:
        yield made


def free_is(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lmdb_binding, "free_bytes", lambda _: size)
    monkeypatch.setattr(lmdb_binding, "has_room", lambda _, needed: needed <= size)


def more(journal: Journal) -> None:
    """One more sealed frame that has everything: a blob, a submission, intents, a receipt."""
    journal.event("again", bytes(5000))
    first, _ = journal.step(intents=2)
    journal.receipt(first)
    journal.seal()


def assert_nothing_of_it(store: LmdbStore, journal: Journal) -> None:
    made = journal.made[-1]
    head = store.head()
    assert head is not None
    assert head.seq == made.frame.header.first - 1
    assert list(store.frames()) == journal.frames[:-1]
    assert store.submission("again") is None
    assert [store.intent(intent.intent) for intent in made.opened_intents] == [None, None]
    assert not any(store.has_blob(each) for each in made.blobs)


@pytest.mark.parametrize("where", ["begin", "put", "commit"])
@pytest.mark.parametrize(
    ("code", "free"),
    [(errno.ENOSPC, PLENTY), (errno.EDQUOT, PLENTY), (errno.EIO, 1000)],
    ids=["no space", "over quota", "short write"],
)
def test_a_group_that_found_no_room_passes_later(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, where: str, code: int, free: int
) -> None:
    journal = grown(store, 2)
    faulty = FaultyEnvironment.under(store)
    free_is(monkeypatch, free)
    more(journal)

    for _ in range(3):
        faulty.fail_next(error(lmdb.DiskError, os.strerror(code), code), where=where)
        with pytest.raises(NoRoom) as caught:
            put(store, journal)
        assert_nothing_of_it(store, journal)
    put(store, journal)

    assert caught.value.free == free
    assert caught.value.needed_bytes > 5000
    assert str(caught.value) == (
        f"{store.folder}: no room to commit ({os.strerror(code)}): expected about "
        f"{caught.value.needed_bytes} bytes, found {free} bytes free "
        "(make room; nothing is lost and nothing was acknowledged)"
    )
    assert list(store.frames()) == journal.frames
    assert faulty.commits == 1


@pytest.mark.parametrize(
    ("kind", "code", "free"),
    [
        (lmdb.Error, errno.EIO, PLENTY),
        (lmdb.PanicError, -30795, 1000),
        (lmdb.CorruptedError, -30796, 1000),
        (lmdb.MapFullError, -30792, 1000),
        (lmdb.Error, errno.EFBIG, 1000),
    ],
)
def test_another_failure_ends_the_store(
    store: LmdbStore,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[lmdb.Error],
    code: int,
    free: int,
) -> None:
    journal = grown(store, 2)
    faulty = FaultyEnvironment.under(store)
    free_is(monkeypatch, free)
    more(journal)

    faulty.fail_next(error(kind, "it broke", code))
    with pytest.raises(CommitFailed, match="the commit failed: it broke"):
        put(store, journal)

    assert_nothing_of_it(store, journal)
    with pytest.raises(CommitFailed, match="an earlier commit failed"):
        put(store, journal)
    with pytest.raises(CommitFailed, match="an earlier commit failed"):
        store.put_blobs({content_hash(b""): b""})
    assert faulty.commits == 0
    assert issubclass(CommitFailed, Damage)

    store.close()
    with LmdbStore.open(store.folder) as again:
        put(again, journal)
        assert list(again.frames()) == journal.frames


def test_blobs_and_values_meet_a_full_disk_too(store: LmdbStore) -> None:
    faulty = FaultyEnvironment.under(store)
    blob = {content_hash(b"blob"): b"blob"}

    faulty.fail_next(error(lmdb.DiskError, "full", errno.ENOSPC))
    with pytest.raises(NoRoom):
        store.put_blobs(blob)
    faulty.fail_next(error(lmdb.DiskError, "full", errno.ENOSPC))
    with pytest.raises(NoRoom):
        store.meta_put("name", b"value")

    assert not store.has_blob(content_hash(b"blob"))
    assert store.meta_get("name") is None
    store.put_blobs(blob)


def test_an_exception_in_the_middle_writes_nothing(store: LmdbStore) -> None:
    journal = grown(store, 1)
    more(journal)
    last = journal.made[-1]
    store.put_blobs(dict(last.blobs))
    system = store._environment.tables["system"]

    def stopped_half_way() -> None:
        with store._environment.write(0) as txn:
            txn.put(b"head", b"nonsense", db=system)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped_half_way()

    put(store, journal)


def test_a_map_that_is_full_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real MDB_MAP_FULL: the address space is used up, and waiting does not help."""
    monkeypatch.setattr(environment, "MAP_BYTES", (1 << 20,))
    with LmdbStore.create(tmp_path / "store") as store:
        journal = grown(store, 1)
        for _ in range(200):
            journal.event(value=os.urandom(10_000))
        journal.seal()

        with pytest.raises(CommitFailed) as caught:
            put(store, journal)
    assert "MDB_MAP_FULL" in str(caught.value)
    assert "ulimit -v unlimited" in str(caught.value)


def filled(store: LmdbStore, journal: Journal, size: int) -> NoRoom:
    """Append values of this size until there is no room; return the error."""
    while True:
        journal.event(value=os.urandom(size))
        journal.seal()
        try:
            put(store, journal)
        except NoRoom as error:
            return error


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("size", in_turns(2, [900, 3000, 30_000, 300_000]))
def test_a_disk_that_is_really_full(tmp_path: Path, kind: str, size: int) -> None:
    """ST-4: LMDB reports "no space" or, where a write was cut short, "input/output error", while
    ext4 reports free space that it gives to no one."""
    with SmallDisk(tmp_path, megabytes=2 if kind == "tmpfs" else 8, kind=kind) as disk:
        folder = disk.path / "store"
        with LmdbStore.create(folder) as store:
            journal = grown(store, 2)
            disk.fill(leave=1_000_000)
            full = filled(store, journal, size)
            assert full.needed_bytes > full.free
            for _ in range(3):
                with pytest.raises(NoRoom):
                    put(store, journal)
            assert list(store.frames()) == journal.frames[:-1]
            assert read_elsewhere(folder, "?") == f"{journal.made[-2].tip.seq}"

            disk.make_room()
            put(store, journal)
            assert list(store.frames()) == journal.frames
        with LmdbStore.open(folder) as store:
            assert store.head() == journal.head()
            for made in journal.made:
                assert [store.blob(each) for each in made.blobs] == list(made.blobs.values())


def read_elsewhere(folder: Path, question: str) -> str:
    """The head that a new process reads."""
    child = spawn("reader", str(folder))
    try:
        assert line(child.stdout) == "open"
        return ask(child, question).split()[0]
    finally:
        end(child)


def test_ext4_counts_blocks_as_free_that_it_gives_to_no_one(tmp_path: Path) -> None:
    """ST-4: why the file system is asked for the room, and not for figures."""
    with SmallDisk(tmp_path, megabytes=8, kind="ext4") as disk:
        disk.fill()
        stat = os.statvfs(disk.path)
        assert stat.f_bfree * stat.f_frsize > 10_000
        assert not has_room(disk.path, 10_000)
        disk.make_room()
        assert has_room(disk.path, 10_000)
        assert not has_room(disk.path, 1 << 30)
        assert list(disk.path.glob("*.*")) == []


def test_a_store_that_finds_no_room_to_be_made(small_disk: SmallDisk) -> None:
    small_disk.fill(leave=20_000)
    folder = small_disk.path / "store"

    with pytest.raises(NoRoom):
        LmdbStore.create(folder)

    small_disk.make_room()
    with LmdbStore.create(folder) as store:
        grown(store, 1)


@pytest.mark.parametrize("readonly", [False, True], ids=["to write", "to read"])
def test_a_full_disk_does_not_end_who_opens_the_store(
    small_disk: SmallDisk, readonly: bool
) -> None:
    """ST-14a: LMDB writes to its lock file through a memory map, where a hole is SIGBUS."""
    folder = small_disk.path / "store"
    journal = world(folder)
    lock = folder / "lock.mdb"
    assert lock.stat().st_blocks * 512 >= lock.stat().st_size, "it has holes"

    def opened() -> str:
        with LmdbStore.open(folder, readonly=readonly) as store:
            head = store.head()
            return "none" if head is None else str(head.seq)

    small_disk.fill()
    assert in_child(opened) == str(journal.tip.seq)

    small_disk.make_room()
    lock.write_bytes(b"")
    os.truncate(lock, 128 + 64 * 512)
    small_disk.fill()
    assert in_child(opened).startswith(f"NoRoom: {folder}: no room to open the store: expected ")
    small_disk.make_room()
    assert in_child(opened) == str(journal.tip.seq)


def test_the_lock_file_is_as_long_as_lmdb_makes_it(tmp_path: Path) -> None:
    """ST-14a: else there would be more places for readers, or holes in it again."""
    lmdb.open(str(tmp_path / "raw"), map_size=1 << 20, max_readers=environment.READERS_MAX).close()
    world(tmp_path / "store")

    sizes = [(tmp_path / each / "lock.mdb").stat().st_size for each in ("raw", "store")]
    assert sizes[0] == sizes[1]
    with LmdbStore.open(tmp_path / "store") as store:
        assert store._environment._raw.max_readers() == environment.READERS_MAX


def test_a_meta_page_that_could_not_be_written_is_no_full_disk(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-4: LMDB then stops, and it is unknown how much of the page is on the disk."""
    journal = grown(store, 2)
    faulty = FaultyEnvironment.under(store)
    free_is(monkeypatch, 0)
    more(journal)
    faulty.fail_next(error(lmdb.DiskError, "no space", errno.ENOSPC))
    faulty.dies = True

    with pytest.raises(CommitFailed, match="the commit failed: no space"):
        put(store, journal)


def test_a_limit_on_the_file_size_is_no_full_disk(tmp_path: Path) -> None:
    def act() -> str:
        with LmdbStore.create(tmp_path / "store") as store:
            journal = grown(store, 1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
            for _ in range(50):
                journal.event(value=os.urandom(20_000))
            journal.seal()
            put(store, journal)
        return "passed"

    assert in_child(act).startswith("CommitFailed: ")


def reserved_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def test_a_limit_on_address_space_gives_a_smaller_map(tmp_path: Path) -> None:
    """ST-12."""

    def act() -> str:
        # On top of the process's earlier reservations: earlier tests may have run modules in it.
        limit = reserved_bytes() + (100 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with LmdbStore.create(tmp_path / "store") as store:
            grown(store, 2)
            return str(store._environment._raw.info()["map_size"])

    assert in_child(act) == str(1 << 36)


def test_too_little_address_space_is_said(tmp_path: Path) -> None:
    """ST-12."""

    def act() -> str:
        limit = 4 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        LmdbStore.create(tmp_path / "store")
        return "passed"

    assert in_child(act) == (
        f"Unavailable: {tmp_path / 'store'}: no address space for the store: expected at least "
        "8 GiB (raise the limit on virtual memory: ulimit -v unlimited)"
    )


def test_more_readers_than_places_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ST-14."""
    monkeypatch.setattr(environment, "READERS_MAX", 2)
    with LmdbStore.create(tmp_path / "store") as store:
        raw = store._environment._raw
        held = [raw.begin(), raw.begin()]
        with pytest.raises(Unavailable, match="readers at once"):
            store.head()
        held.clear()
        assert store.head() is None
