"""``aos gc`` on a file system that is really full (spec/state.md, RT-25 to RT-28; ST-100)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.store.lmdb_store import LmdbStore
from aos.store.room import RESERVE_BYTES, RESERVE_NAME, make_reserve
from aos.values.digests import Hash, content_hash
from tests.cli.shell import here, run
from tests.copies import copied
from tests.host.disk_world import Books, Load, Running, check, environment
from tests.host.puppet import manifest
from tests.host.rig import eventually
from tests.run_seed import rotated
from tests.store.disk import SmallDisk

LEFT = 700_000
WAIT_S = 120.0
GARBAGE = {
    content_hash(data): data for data in (bytes([n % 251, n // 251]) * 1500 for n in range(900))
}
"""Blobs of together 2.7 MB that nothing names."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path, megabytes=24) as disk:
        yield disk


@pytest.fixture
def books(disk: SmallDisk, template: Path) -> Books:
    """A world with unneeded blobs, on a disk with room for its reserve."""
    world = disk.path / "world"
    copied(template, world)
    with LmdbStore.open(world / "store") as store:
        store.put_blobs(GARBAGE)
    return Books(world)


def reserve(books: Books) -> Path:
    return books.world / "store" / RESERVE_NAME


@contextmanager
def waiting(disk: SmallDisk, books: Books, running: Running) -> Iterator[None]:
    """Fill the disk, and have a frame wait for room while the block runs."""
    eventually(reserve(books).exists, "the reserve is there")
    disk.fill(leave=LEFT)
    with Load(books) as load:
        running.until("no_room", is_set=True)
        load._is_over.set()  # the sender ends with the events that it has begun
        assert running.status()["collecting"] is False
        yield


def garbage(books: Books) -> set[Hash]:
    with open_folder(books.world).open_store(readonly=True) as store:
        return {hash for hash in GARBAGE if store.has_blob(hash)}


def test_a_collection_makes_room_for_a_running_world_whose_frame_waits(
    disk: SmallDisk, books: Books
) -> None:
    """RT-25, RT-26: and no one frees any space on the disk."""
    others = Books(books.world, "other")
    with Running(books.world) as running:
        with waiting(disk, books, running):
            many = len(books.acknowledged)
            collected = run("gc", "--json", "--timeout", "2m", "--world", books.world)
            assert collected.code == 0, collected
            assert collected.json["gone"]["blobs"] >= len(GARBAGE)
            running.until("no_room", is_set=False)
        assert len(books.acknowledged) > many, "the frame that waited was not committed"
        assert not garbage(books)
        assert others.send(20), others.busy
        assert running.stop()[0] == 0
    check(books, others)


def test_a_collection_in_a_folder_alone_works_on_a_full_disk(disk: SmallDisk, books: Books) -> None:
    """RT-27: the removal uses the reserve, and the store gets a new one once there is room."""
    assert make_reserve(books.world / "store")
    disk.fill()

    collected = here("gc", "--json", "--world", books.world)

    assert collected.code == 0, collected
    assert not garbage(books)
    assert books.send(20), books.busy
    disk.make_room()
    with Running(books.world) as running:
        eventually(reserve(books).exists, "the next start makes the reserve")
        assert running.stop()[0] == 0
    check(books)


def test_without_a_reserve_a_full_disk_ends_the_collection_at_once(
    disk: SmallDisk, books: Books
) -> None:
    """RT-28: it says what to do, and changes nothing."""
    with Running(books.world) as running, waiting(disk, books, running):
        reserve(books).unlink()
        disk.fill()
        collected = run("gc", "--timeout", "10m", "--world", books.world, timeout=240)
        assert collected.code == 4, collected
        assert "must first commit the frames that wait for the disk" in collected.err
        assert "(make room; nothing is lost" in collected.err
        assert running.status()["collecting"] is False
        assert garbage(books) == set(GARBAGE)
        disk.make_room()
        running.until("no_room", is_set=False)
        eventually(reserve(books).exists, "the reserve is there again")
    check(books)


def test_a_frame_that_is_larger_than_the_reserve_ends_the_collection(
    disk: SmallDisk, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT-28: the frame waits on, until there is room."""
    with open_writer(books.world) as writer:
        writer.apply(manifest(version=2, limits={"world": {"event_bytes": 4 * RESERVE_BYTES}}))
    with Running(books.world) as running:
        eventually(reserve(books).exists, "the reserve is there")
        disk.fill()
        monkeypatch.setattr(books, "value", lambda _: bytes(2 * RESERVE_BYTES))
        sender = threading.Thread(target=books.send)
        sender.start()
        running.until("no_room", is_set=True)
        collected = run("gc", "--timeout", "60s", "--world", books.world)
        assert collected.code == 4, collected
        assert "with the store's reserve there is still too little room" in collected.err
        assert garbage(books) == set(GARBAGE)
        disk.make_room()
        running.until("no_room", is_set=False)
        sender.join(WAIT_S)
        assert running.stop()[0] == 0
    assert len(books.acknowledged) == 1
    check(books)


@pytest.mark.long
@pytest.mark.parametrize("ended", rotated(["collection", "world", "both"]))
def test_a_kill_in_the_middle_loses_nothing(disk: SmallDisk, books: Books, ended: str) -> None:
    """RT-24, RT-26: the collection is killed while it removes rows with the freed reserve. A world
    that runs admits inputs again, one that was killed starts again, and the next collection removes
    the rest."""
    others = Books(books.world, "other")
    with Running(books.world) as running:
        with waiting(disk, books, running):
            with collecting(books) as process:
                eventually(lambda: not reserve(books).exists(), "the reserve is used")
                assert process.stdout is not None
                assert process.stdout.readline() == b"some rows are gone\n"
                if ended != "world":
                    process.kill()
                if ended != "collection":
                    running.kill()
                process.wait(WAIT_S)
            if ended == "collection":
                running.until("collecting", is_set=False)
                running.until("no_room", is_set=False)
        if ended == "collection":
            assert others.send(20), others.busy
            assert running.stop()[0] == 0
    check(books, others)
    with Running(books.world) as running:
        collected = run("gc", "--timeout", "2m", "--world", books.world)
        assert collected.code == 0, collected
        assert not garbage(books)
        assert others.send(20), others.busy
        assert running.stop()[0] == 0
    check(books, others)


COLLECTING = """
import sys
from pathlib import Path
from aos.host.retention import gc

forget = gc._Sweep._forget

def told(sweep, rows):
    count = forget(sweep, rows)
    if rows.blobs:
        print("some rows are gone", flush=True)
    return count

gc.BLOBS_AT_ONCE, gc._Sweep._forget = 3, told
gc.collect_world(Path(sys.argv[1]))
"""


@contextmanager
def collecting(books: Books) -> Iterator[subprocess.Popen[bytes]]:
    """``aos gc`` that removes few rows at a time, and says so each time. A look at the store while
    it does so would keep the pages of the removed rows."""
    with subprocess.Popen(
        [sys.executable, "-c", COLLECTING, str(books.world)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        yield process
        process.kill()
