"""A commit that fails leaves nothing, and says whether the same group may be tried again (ST-4)."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from aos.errors import Damage, Unavailable
from aos.store import environment
from aos.store.errors import CommitFailed, NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import content_hash
from tests.store.children import in_child
from tests.store.faulty import FaultyEnvironment, error
from tests.store.journal import Journal, grown, put
from tests.tools import missing

PLENTY = 1 << 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    with LmdbStore.create(tmp_path / "store") as made:
        yield made


def free_is(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(environment, "_free_bytes", lambda _: size)


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
    assert [store.intent(each.intent) for each in made.opened] == [None, None]
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
    assert caught.value.needed > 5000
    assert str(caught.value) == (
        f"{store.folder}: no room to commit ({os.strerror(code)}): expected about "
        f"{caught.value.needed} bytes, found {free} bytes free "
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        missing("there is no mount program: a disk that is really full is not tested")
    if mounted.returncode:
        pytest.skip(f"mount is not permitted: a full disk is NOT TESTED: {mounted.stderr!r}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_200_000))
    with LmdbStore.create(small_disk / "store") as store:
        journal = grown(store, 2)
        full: NoRoom | None = None
        while full is None:
            journal.event(value=os.urandom(30_000))
            journal.seal()
            try:
                put(store, journal)
            except NoRoom as error:
                full = error
        assert full.free < 100_000
        with pytest.raises(NoRoom):
            put(store, journal)
        assert list(store.frames()) == journal.frames[:-1]

        ballast.unlink()
        put(store, journal)
        assert list(store.frames()) == journal.frames
    with LmdbStore.open(small_disk / "store") as store:
        assert store.head() == journal.head()
        for made in journal.made:
            assert [store.blob(each) for each in made.blobs] == list(made.blobs.values())


def test_a_store_that_finds_no_room_to_be_made(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes((2 << 20) - 20_000))

    with pytest.raises(NoRoom):
        LmdbStore.create(small_disk / "store")

    (small_disk / "ballast").unlink()
    with LmdbStore.create(small_disk / "store") as store:
        grown(store, 1)


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


def test_a_limit_on_address_space_gives_a_smaller_map(tmp_path: Path) -> None:
    """ST-12."""

    def act() -> str:
        limit = 100 << 30
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
