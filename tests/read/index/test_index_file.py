"""Damage to the index file, two processes, and bounds (spec/index.md)."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from aos.errors import AosError, Damage, Unavailable
from aos.host.folder.reader import open_reader
from aos.read.index import index_errors
from aos.read.index.index_errors import IndexFull
from aos.read.index.index_file import CHECKED_NAME, INDEX_NAME, LOG, OLD_FILES
from aos.read.index.world_index import WorldIndex
from aos.values.digests import content_hash
from tests.read.index.histories import History
from tests.read.index.index_oracle import cell_row, read_at_head
from tests.read.index.test_index_and_scan import Filled, filled
from tests.run_seed import rotated
from tests.store.disk import SmallDisk
from tests.tools import long_form


def made(tmp_path: Path, name: str, inputs: int = 60) -> tuple[History, Path]:
    history = History(tmp_path / "world", name)
    folder = tmp_path / "index"
    history.grow(inputs)
    with filled(history.path, folder) as opened:
        opened.check()
    return history, folder


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_flipped_or_cut_file_is_rebuilt(tmp_path: Path, *, is_closed: bool) -> None:
    """IX-31: each flipped bit of the file, after a close and after a crash."""
    history, folder = made(tmp_path, "damage")
    if not is_closed:
        history.grow(40)
        opened = Filled(history.path, folder)
        opened.check()
        opened.kill()
        assert (folder / f"{INDEX_NAME}{LOG}").stat().st_size
    chosen = random.Random("damage of the index")
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    rebuilt, checked = 0, list[list[str]]()
    rounds = (200 if long_form() else 8) if is_closed else (60 if long_form() else 5)
    for number in range(rounds):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        file = folder / INDEX_NAME
        data = bytearray(file.read_bytes())
        if number % 4 == 0:
            del data[chosen.randrange(len(data)) :]
        else:
            data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        file.write_bytes(data)
        with (
            open_reader(history.path) as reader,
            read_at_head(folder, reader.store, reader.state) as found,
        ):
            assert found is None
        with filled(history.path, folder) as opened:
            rebuilt += len(opened.said)
            check_once(opened, checked, folder)
    assert rebuilt == rounds
    assert len(checked) == 1, "each round rebuilds the same"


def check_once(opened: Filled, checked: list[list[str]], folder: Path) -> None:
    """Advance to the end, and compare all with a scan, unless the same rows were compared before:
    a scan takes longer than all the rest of a round."""
    assert opened.advance()
    with closing(sqlite3.connect(folder / INDEX_NAME)) as database:
        rows = list(database.iterdump())
    if rows not in checked:
        opened.check()
        checked.append(rows)


def test_a_damaged_log_leaves_an_earlier_record(tmp_path: Path) -> None:
    """IX-31: what SQLite finds whole of the log is used, and the rest is read again."""
    history, folder = made(tmp_path, "log", 20)
    for _ in range(4):
        history.grow(10)
        opened = Filled(history.path, folder)
        opened.check()
        opened.kill()
    chosen = random.Random("damage of the log")
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    checked = list[list[str]]()
    for number in range(100 if long_form() else 8):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        log = folder / f"{INDEX_NAME}{LOG}"
        data = bytearray(log.read_bytes())
        if number % 3 == 0:
            del data[chosen.randrange(len(data)) :]
        else:
            data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        log.write_bytes(data)
        with filled(history.path, folder) as opened:
            check_once(opened, checked, folder)


def test_each_flipped_bit_of_a_row_is_found_after_a_crash(tmp_path: Path) -> None:
    """IX-30: by the hash of the file, which its last checkpoint left."""
    history, folder = made(tmp_path, "rows", 10)
    file = folder / INDEX_NAME
    data = file.read_bytes()
    places = [match.start() for match in re.finditer(b"t/desk@1", data)]
    assert places
    for bit in range(8) if long_form() else (0, 7):
        changed = bytearray(data)
        for place in places:
            changed[place + 2] ^= 1 << bit
        file.write_bytes(changed)
        with filled(history.path, folder) as opened:
            assert opened.said == ["the index is rebuilt: its files are not as they were written"]
        file.write_bytes(data)
        (folder / CHECKED_NAME).write_bytes(content_hash(data))


def test_an_index_of_earlier_releases_is_removed_and_rebuilt(tmp_path: Path) -> None:
    """IX-37: nothing is read from its files."""
    history = History(tmp_path / "world", "earlier")
    history.grow(20)
    folder = tmp_path / "index"
    folder.mkdir(mode=0o700)
    for name in OLD_FILES:
        (folder / name).write_bytes(b"of an earlier release")
    with (
        open_reader(history.path) as reader,
        read_at_head(folder, reader.store, reader.state) as reader_of_index,
    ):
        assert reader_of_index is None
    with filled(history.path, folder) as opened:
        assert opened.index.progress(opened.reader.state).cells_left > 0
        opened.check()
    assert not {file.name for file in folder.iterdir()} & {*OLD_FILES}


def test_a_file_of_another_format_is_rebuilt(tmp_path: Path) -> None:
    """IX-3"""
    history, folder = made(tmp_path, "format", 10)
    opened = Filled(history.path, folder)
    opened.index._file.db.execute("UPDATE head SET format = format + 1")
    opened.close()
    with filled(history.path, folder) as again:
        assert again.said == [
            "the index is rebuilt: it is of another format, or its head is damaged"
        ]
        again.check()


def test_one_process_writes_and_another_reads_meanwhile(tmp_path: Path) -> None:
    """IX-32, IX-44"""
    history, folder = made(tmp_path, "two")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from aos.host.folder.reader import open_reader\n"
        "from aos.read.index.opened_index import OpenedIndex\n"
        "from aos.read.index.world_index import WorldIndex\n"
        "path, folder = map(Path, sys.argv[1:])\n"
        "reader = open_reader(path)\n"
        "assert WorldIndex.open(folder, reader.store, print) is None\n"
        "opened = OpenedIndex()\n"
        "with opened.at_head(folder, reader.store, reader.state) as found:\n"
        "    print(found.intents_count(), found.versions())\n"
    )
    with filled(history.path, folder) as opened:
        opened.check()
        ended = subprocess.run(
            [sys.executable, "-c", program, str(history.path), str(folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        with opened.index.reading() as reader:
            assert (ended.stdout, ended.stderr) == (
                f"{reader.intents_count()} {reader.versions()}\n",
                "",
            )


def test_files_are_for_their_owner_alone_and_no_links(tmp_path: Path) -> None:
    """IX-33"""
    history, folder = made(tmp_path, "mode", 5)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    (folder / INDEX_NAME).rename(tmp_path / "elsewhere")
    (folder / INDEX_NAME).symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    with open_reader(history.path) as reader, pytest.raises(Damage, match="symbolic link"):
        WorldIndex.open(folder, reader.store, pytest.fail)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_a_full_index_says_so_and_keeps_its_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IX-35"""
    monkeypatch.setattr(index_errors, "BYTES_MAX", 24 * 4096)
    history = History(tmp_path / "world", "full")
    folder = tmp_path / "index"
    history.grow(400)
    with filled(history.path, folder) as opened:
        with pytest.raises(IndexFull, match="the index is full"):
            opened.advance()
        assert opened.index.as_of < opened.reader.seq
    monkeypatch.undo()
    with filled(history.path, folder) as opened:
        assert opened.said == []
        opened.check()


@pytest.mark.long
@pytest.mark.parametrize("leave", rotated([0, 4096, 30_000, 1_000_000]))
def test_an_index_on_a_full_disk_keeps_its_last_commit_and_is_continued(
    tmp_path: Path, leave: int
) -> None:
    """IX-70: also where not even the hash that its last writer leaves has room."""
    history = History(tmp_path / "world", "full disk")
    history.grow(300)
    with SmallDisk(tmp_path, megabytes=16, is_visible=True) as disk:
        folder = disk.path / "index"
        disk.fill(leave=leave)
        as_of = 0

        def advance_to_the_end() -> None:
            nonlocal as_of
            with filled(history.path, folder) as opened:
                try:
                    opened.advance()
                finally:
                    as_of = opened.index.as_of
                    disk.fill()

        with pytest.raises(Unavailable, match="there is no room on the disk for the index"):
            advance_to_the_end()
        assert (as_of > 0) == (leave == 1_000_000)
        disk.make_room()
        with filled(history.path, folder) as opened:
            assert opened.index.as_of == as_of
            assert opened.said == [] or not as_of
            opened.check()


def test_a_limit_on_the_size_of_files_is_said(tmp_path: Path) -> None:
    """IX-70"""
    history = History(tmp_path / "world", "limit")
    history.grow(300)
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from aos.host.folder.reader import open_reader\n"
        "from aos.read.index.world_index import WorldIndex\n"
        "reader = open_reader(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "index = WorldIndex.open(Path(sys.argv[2]), reader.store, print)\n"
        "try:\n"
        "    while not index.advance(reader.state, lambda: True): pass\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
        "index.close()\n"
    )
    words = [sys.executable, "-c", program, str(history.path), str(tmp_path / "index")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Unavailable ")
    assert "the index cannot be used: disk I/O error" in ended.stdout
    with filled(history.path, tmp_path / "index") as opened:
        assert opened.said == []
        opened.check()


def test_cells_that_were_lost_with_a_transaction_are_numbered_again(tmp_path: Path) -> None:
    """IX-5, IX-9: also by the same process."""
    history = History(tmp_path / "world", "again")
    for number in range(150):
        history._tell(f"order-{number}")
    history.grow(1)
    with filled(history.path, tmp_path / "index") as opened:
        assert not opened.index.advance(opened.reader.state, lambda: True)

        def fails() -> bool:
            raise RuntimeError("the process ran out of something")

        with pytest.raises(RuntimeError):
            opened.index.advance(opened.reader.state, fails)
        opened.check()


def test_damage_while_it_is_open_is_one_clear_error(tmp_path: Path) -> None:
    """IX-34"""
    history, folder = made(tmp_path, "open")
    opened = Filled(history.path, folder)
    opened.index._file.db.execute("DELETE FROM head")
    with pytest.raises(AosError, match=r"the index is damaged: found no head \(delete this folder"):
        opened.advance()
    opened.kill()
    with filled(history.path, folder) as again:
        assert again.said == [
            "the index is rebuilt: it is of another format, or its head is damaged"
        ]
        again.check()


def test_an_index_is_small_and_needs_little_memory(tmp_path: Path) -> None:
    """IX-36: at most 200 bytes a record, and a few MB however many there are."""
    history = History(tmp_path / "world", "small")
    for number in range(2000 if long_form() else 700):
        history._tell(f"order-{number}", history._ask())
        history._tell(f"order-{number}")
        history.world.run()
    history.grow(1)
    with open_reader(history.path) as reader:
        index = WorldIndex.open(tmp_path / "index", reader.store, pytest.fail)
        assert index is not None
        with index:
            tracemalloc.start()
            while not index.advance(reader.state, lambda: False):
                pass
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 8 << 20
            empty = 32 * 4096
            assert index.size_bytes() - empty < 200 * reader.seq
            with index.reading() as found:
                assert all(cell_row(found, id) for id in reader.state.cells)


def test_nothing_of_the_world_is_locked_or_written(tmp_path: Path) -> None:
    """IX-8"""
    history = History(tmp_path / "world", "untouched")
    history.grow(10)
    before = {each: each.stat().st_mtime_ns for each in history.path.rglob("*") if each.is_file()}
    with filled(history.path, tmp_path / "index") as opened:
        opened.check()
        assert not os.path.lexists(history.path / "node")
    after = {each: each.stat().st_mtime_ns for each in history.path.rglob("*") if each.is_file()}
    assert {each.name for each in after.keys() ^ before.keys()} <= {"lock.mdb"}
    assert all(after[each] == before[each] for each in before if each.name != "lock.mdb")
