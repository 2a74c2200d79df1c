"""Both of LMDB's meta pages are read when a store is opened (ST-17a, ST-17b)."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import lmdb
import pytest

from aos.errors import AosError, Damage
from aos.store.first_look import check_meta_pages, structure_problems
from aos.store.lmdb_store import LmdbStore
from tests.store.children import end, in_child, line, spawn
from tests.store.journal import Journal, grown, put

PAGE: Final = 4096
META_BYTES: Final = 152
TXN: Final = 144
WITHOUT_MEANING: Final = {*range(8, 10), *range(12, 16), *range(24, 40)}
"""Bytes of a meta page that LMDB never reads: padding, bounds of a page that has no nodes, an
address to map at, and how much to map, which every process says itself."""

HOW_IT_WAS_MADE: Final = (45, 6)
"""Byte and bit: LMDB notes whether the file was made without a folder, and never asks."""

LAST_PAGE: Final = range(136, TXN)
"""Checked in part, and by the walk: a page may lie behind the last one after a crash."""

OLDER_MEANS: Final = {*range(8), 10, 11, *range(16, 24), *range(40, 46), *range(88, 94)}
"""And of the older page: its head, the size of a page, flags. Then its transaction number."""


def store_of(folder: Path, groups: int) -> Journal:
    with LmdbStore.create(folder) as store:
        journal = grown(store, 0)
        for n in range(groups):
            journal.event(f"id {n}", bytes([n % 256]) * (3000 * n % 10_000))
            journal.step(intents=2)
            journal.seal()
            put(store, journal)
    return journal


def numbers(folder: Path) -> list[int]:
    data = (folder / "data.mdb").read_bytes()
    return [struct.unpack_from("<Q", data, at + TXN)[0] for at in (0, PAGE)]


@pytest.mark.parametrize("groups", [1, 2, 12, 13])
def test_each_bit_of_the_meta_pages_that_means_something_is_checked(
    tmp_path: Path, groups: int
) -> None:
    """ST-17a, ST-17b: whichever of the two pages is the newer one."""
    folder = tmp_path / "store"
    store_of(folder, groups)
    whole = (folder / "data.mdb").read_bytes()
    newer = max((0, 1), key=numbers(folder).__getitem__)
    file = os.open(folder / "data.mdb", os.O_RDWR)
    missed: list[tuple[int, int, int]] = []
    for page in (0, 1):
        for at in range(META_BYTES):
            is_read = at not in WITHOUT_MEANING
            if page != newer:
                is_read = at in OLDER_MEANS or at >= TXN
            for bit in range(8):
                place = page * PAGE + at
                os.pwrite(file, bytes([whole[place] ^ 1 << bit]), place)
                try:
                    check_meta_pages(folder)
                except Damage:
                    pass
                else:
                    if is_read and at not in LAST_PAGE and (at, bit) != HOW_IT_WAS_MADE:
                        missed.append((page, at, bit))
                os.pwrite(file, whole[place : place + 1], place)
    os.close(file)

    assert missed == []
    check_meta_pages(folder)


def test_the_commit_before_is_never_brought_back_in_silence(tmp_path: Path) -> None:
    """ST-17a: opening with either page's number flipped, for readers and writers."""
    folder = tmp_path / "store"
    journal = store_of(folder, 3)
    whole = (folder / "data.mdb").read_bytes()
    found: set[str] = set()
    for place in (*range(TXN, TXN + 8), *range(PAGE + TXN, PAGE + TXN + 8)):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            (folder / "data.mdb").write_bytes(data)
            for readonly in (True, False):
                with pytest.raises(Damage) as caught:
                    LmdbStore.open(folder, readonly=readonly, looks=False)
                found.add(str(caught.value).partition(": ")[0])
            assert (folder / "data.mdb").read_bytes() == data, "a refusal changed the file"
    assert found == {f"{folder / 'data.mdb'}"}

    (folder / "data.mdb").write_bytes(whole)
    with LmdbStore.open(folder) as store:
        assert store.head() == journal.head()


@pytest.mark.parametrize("groups", [1, 2, 12, 13])
@pytest.mark.parametrize("has_reader", [False, True], ids=["alone", "reader"])
def test_the_numbers_continue_after_a_compaction(
    tmp_path: Path, groups: int, has_reader: bool
) -> None:
    """ST-52: a reader in another process keeps the lock file, and the number in it."""
    folder = tmp_path / "store"
    store_of(folder, groups)
    before = max(numbers(folder))
    child = spawn("reader", str(folder)) if has_reader else None
    try:
        if child is not None:
            assert line(child.stdout) == "open"
        with LmdbStore.open(folder) as store:
            store.compact()
            assert sorted(numbers(folder)) == [before - 1, before]
            check_meta_pages(folder)

            store.meta_put("first", b"commit")
            assert sorted(numbers(folder)) == [before, before + 1]
            check_meta_pages(folder)
    finally:
        if child is not None:
            end(child)
    assert structure_problems(folder) == []


def test_meta_pages_that_are_not_as_they_were_left_are_damage(tmp_path: Path) -> None:
    """ST-18b: a bit of each byte, where the last writer closed the store."""
    folder = tmp_path / "store"
    store_of(folder, 3)
    data = folder / "data.mdb"
    whole, times = data.read_bytes(), data.stat()
    for place in (*range(META_BYTES), *range(PAGE, PAGE + META_BYTES)):
        with data.open("r+b") as file:
            file.seek(place)
            file.write(bytes([whole[place] ^ 1 << place % 8]))
        os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(Damage, match="the store's data file is "):
            check_meta_pages(folder)
        with data.open("r+b") as file:
            file.seek(place)
            file.write(whole[place : place + 1])
        os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    check_meta_pages(folder)


def test_another_last_page_is_found_or_takes_nothing(tmp_path: Path) -> None:
    """ST-17b, ST-18b: although length and time of the file are as its last writer left them."""
    folder, victim = tmp_path / "store", tmp_path / "victim"
    journal = store_of(folder, 12)
    newer = max((0, 1), key=numbers(folder).__getitem__)
    damaged = 0
    for number in (*range(9), 20, 40, 63):
        shutil.rmtree(victim, ignore_errors=True)
        shutil.copytree(folder, victim)
        data, place = victim / "data.mdb", newer * PAGE + LAST_PAGE.start + number // 8
        times = data.stat()
        with data.open("r+b") as file:
            file.seek(place)
            (before,) = file.read(1)
            file.seek(place)
            file.write(bytes([before ^ 1 << number % 8]))
        os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))

        try:
            store = LmdbStore.open(victim)
        except AosError as problem:
            damaged += isinstance(problem, Damage)
            continue
        with store:
            store.meta_put("name", bytes(50_000))
            assert list(store.frames()) == journal.frames
            assert store.head() == journal.head()
        # An unused page does no harm.
        assert all("a leak" in each for each in structure_problems(victim))
    assert damaged > 2


def test_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    """ST-17a."""
    folder = tmp_path / "store"
    store_of(folder, 3)
    even, odd = numbers(folder)
    at = TXN if even > odd else PAGE + TXN
    with (folder / "data.mdb").open("r+b") as file:
        file.seek(at)
        file.write(struct.pack("<Q", max(even, odd) + 4))
    even, odd = numbers(folder)

    with pytest.raises(Damage) as caught:
        LmdbStore.open(folder)

    assert str(caught.value) == (
        f"{folder / 'data.mdb'}: the store's data file is damaged: found transaction {even} in one "
        f"meta page and {odd} in the other (the last commit may be lost in this file: restore a "
        "backup)"
    )


def empty(folder: Path) -> None:
    LmdbStore.create(folder).close()


def copied_by_lmdb(folder: Path, *, compact: bool) -> None:
    store_of(folder.with_name("source"), 5)
    folder.mkdir()
    with lmdb.open(str(folder.with_name("source")), max_dbs=20, lib_version=0) as source:
        source.copy(str(folder), compact=compact)


def compacted(folder: Path) -> None:
    store_of(folder, 5)
    with LmdbStore.open(folder) as store:
        store.compact()


def copied_by_hand(folder: Path) -> None:
    store_of(folder.with_name("source"), 5)
    shutil.copytree(folder.with_name("source"), folder)


def shrunk(folder: Path) -> None:
    """Many pages are free: their list has pages of its own."""
    store_of(folder, 1)
    with LmdbStore.open(folder) as store:
        tables = store._environment.tables
        for n in range(3000):
            with store._environment._raw.begin(write=True) as txn:
                txn.put(b"%d" % n, bytes(9000), db=tables["meta"])
            if n > 300:
                break
        with store._environment._raw.begin(write=True) as txn:
            txn.drop(tables["meta"], delete=False)


@pytest.mark.parametrize(
    "made",
    [
        empty,
        lambda folder: store_of(folder, 1),
        compacted,
        copied_by_hand,
        shrunk,
        lambda folder: copied_by_lmdb(folder, compact=False),
        lambda folder: copied_by_lmdb(folder, compact=True),
    ],
    ids=["empty", "one group", "compacted", "copied", "shrunk", "mdb_copy", "mdb_copy -c"],
)
def test_a_healthy_store_of_any_origin_is_opened(
    tmp_path: Path, made: Callable[[Path], object]
) -> None:
    """ST-17a: and again after each of the next commits."""
    folder = tmp_path / "store"
    made(folder)
    for n in range(6):
        check_meta_pages(folder)
        with LmdbStore.open(folder) as store:
            store.meta_put(f"name {n}", bytes(n * 1000))
            check_meta_pages(folder)


def test_a_store_whose_writer_is_killed_at_any_commit_is_opened(tmp_path: Path) -> None:
    """ST-17a, ST-3."""
    folder = tmp_path / "store"
    journal = store_of(folder, 2)
    for _ in range(12):

        def dies() -> str:
            store = LmdbStore.open(folder, looks=False)
            journal.event()
            journal.seal()
            with store._environment.write(0) as txn:
                txn.put(b"half", bytes(5000), db=store._environment.tables["meta"])
                os.kill(os.getpid(), signal.SIGKILL)
            return "lives"

        assert in_child(dies) == "signal 9"
        check_meta_pages(folder)
        with LmdbStore.open(folder, looks=False) as store:
            store.meta_put("name", b"value")


def test_a_writer_may_commit_while_the_pages_are_read(tmp_path: Path) -> None:
    """ST-17a: the reader reads pages again that change meanwhile."""
    folder = tmp_path / "store"
    store_of(folder, 2)
    with LmdbStore.open(folder) as store:
        done = threading.Event()

        def write() -> None:
            for n in range(300):
                store.meta_put(f"name {n % 40}", bytes(n * 37 % 9000))
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        count = 0
        while not done.is_set():
            check_meta_pages(folder)
            count += 1
        writer.join()
    assert count > 20
