"""A world in a folder whose name is not UTF-8: every file of LMDB in it is opened
(spec/store.md, ST-12a)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aos.host.folder.reader import open_reader
from aos.node.leases.table import open_table
from aos.read.index.world_index import WorldIndex
from aos.store.lmdb_store import LmdbStore
from tests.cli.shell import here
from tests.host import puppet
from tests.read.index.histories import History
from tests.read.index.test_index_and_scan import filled

NAME = os.fsdecode(b"\xff\xfe \xe2\x80")


def test_a_world_whose_name_is_no_utf8_is_made_run_and_checked(tmp_path: Path) -> None:
    """ST-12a"""
    path = tmp_path / NAME
    manifest = tmp_path / "manifest"
    manifest.mkdir()
    for name, data in puppet.files().items():
        (manifest / name).write_bytes(data)
    for words in (
        ("init", path),
        ("apply", manifest, "--world", path),
        ("send", puppet.DO, '{"key": "ada"}', "--world", path),
        ("run", "--until-idle", "--world", path),
        ("snapshot", "--world", path),
        ("gc", "--world", path),
        ("export", tmp_path / f"{NAME}.aos", "--world", path),
        ("verify", tmp_path / f"{NAME}.aos"),
        ("replay", "--world", path),
    ):
        done = here(*words)
        assert done.code == 0, (words, done.err)
    with LmdbStore.open(path / "store") as store:
        head = store.head()
        store.compact()
    with open_reader(path) as reader:
        assert reader.store.head() == head
    open_table(path, seq=1, report=pytest.fail).close()


def test_an_index_in_such_a_folder_is_filled_checked_and_read(tmp_path: Path) -> None:
    """ST-12a, IX-31: also by the child that reads all of it after a crash."""
    history = History(tmp_path / "world", "names")
    history.grow(20)
    folder = tmp_path / NAME
    with open_reader(history.path) as reader:
        index = WorldIndex.open(folder, reader.store, pytest.fail)
        assert index is not None
        while not index.advance(reader.state):
            pass
        index.abandon()
    with filled(history.path, folder) as opened:
        assert opened.said == []
        opened.check()
