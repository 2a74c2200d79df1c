"""Indexes in the machine's cache (spec/index.md, IX-50 to IX-53)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.host.folder.reader import open_reader
from aos.read.index.cached_index import find_index, folder_for, index_cache, make_room
from aos.read.index.index_file import INDEX_NAME
from tests.read.index.histories import History
from tests.read.index.test_index_and_scan import Filled


def test_the_environment_names_the_cache() -> None:
    """IX-50"""
    assert index_cache({"AOS_CACHE_DIR": "/c"}) == Path("/c/index")
    assert index_cache({"AOS_CACHE_DIR": "", "HOME": "/h"}) is None
    assert index_cache({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/aos/index")
    assert index_cache({"HOME": "/h"}) == Path("/h/.cache/aos/index")
    assert index_cache({}) is None


def fill(path: Path, cache: Path) -> Path:
    with open_reader(path) as reader:
        folder = folder_for(cache, reader.store)
    opened = Filled(path, folder)
    opened.check()
    opened.close()
    assert opened.said == []
    return folder


def test_each_history_of_a_world_has_an_index_of_its_own(tmp_path: Path) -> None:
    """IX-51: a world that grows keeps its index; another history does not take it."""
    cache = tmp_path / "cache" / "index"
    history = History(tmp_path / "world", "cached")
    history.grow(20)
    first = fill(history.path, cache)
    backup = tmp_path / "backup"
    shutil.copytree(history.path, backup)
    history.grow(20)
    assert fill(history.path, cache) == first

    older = fill(backup, cache)

    assert older != first
    history.grow(20)
    assert fill(history.path, cache) == first  # it has more of it than the other one
    with open_reader(backup) as reader:
        assert find_index(cache, reader.store) == older
    assert {each.stat().st_mode & 0o777 for each in cache.iterdir()} == {0o700}


def test_the_oldest_go_first(tmp_path: Path) -> None:
    """IX-52: but none that is written, and not the one that is kept."""
    cache = tmp_path / "index"
    folders = []
    for number in range(4):
        history = History(tmp_path / f"world {number}", "room")
        history.chosen.seed(number)
        history.grow(3 + number)
        history.world.now_ns += number
        folders.append(fill(history.path, cache))
    assert len(set(folders)) == 4
    for age, folder in enumerate(folders):
        os.utime(folder / INDEX_NAME, (age, age))
    size = sum((folder / INDEX_NAME).stat().st_size for folder in folders)
    opened = Filled(tmp_path / "world 0", folders[0])  # is written
    os.utime(folders[0] / INDEX_NAME, (0, 0))

    assert make_room(cache, keep=folders[1], bytes_max=size) == []
    assert make_room(cache, keep=folders[1], bytes_max=size - 1) == [folders[2]]
    opened.close()
    assert not folders[2].exists()
    assert make_room(cache, keep=folders[1], bytes_max=0) == [folders[0], folders[3]]
    assert [each.name for each in cache.iterdir()] == [folders[1].name]


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    """IX-53"""
    cache = tmp_path / "index"
    cache.mkdir()
    cache.chmod(0o777)
    history = History(tmp_path / "world", "others")
    with (
        open_reader(history.path) as reader,
        pytest.raises(Unavailable, match=r"mode 0700, found user .* mode 0777"),
    ):
        folder_for(cache, reader.store)
