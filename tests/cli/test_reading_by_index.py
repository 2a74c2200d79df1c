"""Commands that read by an index that is there (spec/cli.md, C-33, C-36, C-39; spec/index.md,
IX-61, IX-66)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aos.host.folder.reader import open_reader
from aos.host.retention.pruning import prune_world
from aos.read.index import world_index
from aos.read.index.cached_index import OF_NODE, folder_for
from aos.read.index.index_file import INDEX_NAME
from aos.read.index.index_reader import IndexReader
from aos.read.index.world_index import WorldIndex
from aos.read.views.view import View
from aos_cli.main import run_command
from tests.fake_clock import set_machine_clock
from tests.own_cache import use_own_cache
from tests.read.index.histories import History

NOW_NS = 1_900_000_000_000_000_000

COMMANDS = [
    ["inspect", "cells"],
    ["inspect", "cells", "--key-prefix", "a", "--sort", "activity", "--limit", "2"],
    ["inspect", "cells", "--status", "running", "--sort", "age", "--offset", "1", "--state"],
    ["inspect", "cells", "--waits-for", "event"],
    ["inspect", "intents"],
    ["inspect", "intents", "--status", "all", "--limit", "5"],
    ["inspect", "intents", "--status", "ok", "--limit", "2"],
    ["inspect", "intents", "--status", "error", "--effect", "pay"],
    ["inspect", "journal", "--workflow", "desk", "--key", "a"],
    ["inspect", "journal", "--workflow", "desk", "--key", "ab", "--kind", "step", "--limit", "3"],
    ["inspect", "journal", "--workflow", "desk", "--key", "a", "--from", "12", "--to", "60"],
    ["trace", "desk", "a", "--follow-events"],
    ["trace", "desk", "abc"],
    ["trace", "9"],
    ["trace", "20"],
]


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    use_own_cache(monkeypatch, tmp_path / "cache")
    set_machine_clock(monkeypatch, NOW_NS)
    history = History(tmp_path / "world", "commands")
    history.grow(60)
    return history


def fill(path: Path, folder: Path | None = None) -> Path:
    with open_reader(path) as reader:
        if folder is None:
            folder = folder_for(path.parent / "cache" / "index", reader.store)
        index = WorldIndex.open(folder, reader.store, pytest.fail)
        assert index is not None
        with index:
            while not index.advance(reader.state):
                pass
    return folder


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The records of the indexes that views were read by."""
    found: list[int] = []
    use = world_index.use_index

    def noted(view: View, reader: IndexReader) -> None:
        found.append(reader.as_of)
        use(view, reader)

    monkeypatch.setattr(world_index, "use_index", noted)
    return found


def outputs(path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> list[bytes]:
    found = []
    for words in COMMANDS:
        for more in ([], ["--json"]):
            capsysbinary.readouterr()
            assert run_command([*words, *more, "--world", str(path)]) == 0, words
            found.append(capsysbinary.readouterr().out)
    return found


def test_the_output_is_the_same_with_an_index_and_without_it(
    history: History, used: list[int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """IX-61, IX-66: also with records that the index lacks, and after a prune."""
    path = history.path
    plain = outputs(path, capsysbinary)
    assert used == []
    folder = fill(path)
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "lock.mdb"}

    assert outputs(path, capsysbinary) == plain

    last = history.world.state.next_seq - 1
    assert used == [last] * len(plain)
    history.grow(15)
    history.snapshot()
    used.clear()
    by_index = outputs(path, capsysbinary)
    assert len(used) == len(plain)
    assert used[0] > last
    after = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "lock.mdb"}
    assert after == before, "a command has written the index"
    shutil.rmtree(folder)
    assert outputs(path, capsysbinary) == by_index


def test_the_index_of_a_node_is_used_first_and_a_damaged_one_is_not(
    history: History, used: list[int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """IX-31, IX-66"""
    path = history.path
    plain = outputs(path, capsysbinary)
    (path / "node").mkdir()
    folder = fill(path, path / OF_NODE)

    assert outputs(path, capsysbinary) == plain

    assert len(used) == len(plain)
    used.clear()
    data = bytearray((folder / INDEX_NAME).read_bytes())
    for damaged in (data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1]), bytearray()):
        (folder / INDEX_NAME).write_bytes(damaged)
        assert outputs(path, capsysbinary) == plain
    assert used == []


def test_a_world_that_is_named_by_a_relative_path_is_read_by_its_index(
    history: History,
    used: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """IX-66"""
    plain = outputs(history.path, capsysbinary)
    (history.path / "node").mkdir()
    fill(history.path, history.path / OF_NODE)
    monkeypatch.chdir(history.path)

    assert outputs(Path(), capsysbinary) == plain

    assert len(used) == len(plain)


def test_an_index_of_another_world_or_of_pruned_records_is_not_used(
    history: History, used: list[int], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """IX-3, IX-66"""
    other = History(tmp_path / "other", "commands")
    other.chosen.seed(1)
    other.grow(60)
    (history.path / "node").mkdir()
    (other.path / "node").mkdir()
    shutil.copytree(fill(other.path, other.path / OF_NODE), history.path / OF_NODE)
    outputs(history.path, capsysbinary)
    assert used == []
    shutil.rmtree(history.path / OF_NODE)
    fill(history.path, history.path / OF_NODE)
    history.snapshot()
    history.grow(5)
    prune_world(history.path)

    assert run_command(["inspect", "cells", "--world", str(history.path)]) == 0

    assert used == []
