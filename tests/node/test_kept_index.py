"""A process that keeps an index, as the page and the front of a node use it (spec/index.md,
IX-62 to IX-65)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from aos.host.door.writer import Item, open_writer
from aos.host.folder.reader import WorldReader, open_reader
from aos.node import kept_index
from aos.node.kept_index import KeptIndex
from aos.read.index.cached_index import find_index
from aos.read.index.index_file import INDEX_NAME, OLD_FILES, open_to_write
from aos.values.cbor import encode
from tests.host.apply.test_upgrades import counted
from tests.host.puppet import PUPPET, do
from tests.node.nodes import running_kernel
from tests.own_cache import use_own_cache
from tests.read.index.histories import History
from tests.read.index.index_oracle import check_index, read_at_head


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 10)
    monkeypatch.setattr(kept_index, "LOOK_S", 0.02)
    monkeypatch.setattr(kept_index, "PAUSE_S", 0.02)
    use_own_cache(monkeypatch, tmp_path / "cache")
    history = History(tmp_path / "world", "kept")
    history.grow(30)
    return history


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0.02)


def kept(history: History, said: list[str], place: Path | None = None) -> KeptIndex:
    return KeptIndex(
        history.path, lambda: history.world.state.next_seq - 1, said.append, index_folder=place
    )


def check(history: History, folder: Path | None) -> None:
    assert folder is not None
    with (
        open_reader(history.path) as reader,
        read_at_head(folder, reader.store, reader.state) as found,
    ):
        assert found is not None
        check_index(found, reader.state, reader.store)


def test_the_index_is_kept_in_the_cache_and_started_again_after_a_kill(history: History) -> None:
    """IX-50, IX-62, IX-64"""
    said: list[str] = []

    async def run() -> None:
        index = kept(history, said)
        assert (index.folder, index.document()) == (None, None)
        index.start()
        await until(lambda: index.folder is not None)
        folder = index.folder
        check(history, folder)
        history.grow(20)
        check(history, folder)
        last = history.world.state.next_seq - 1
        await until(lambda: (index.document() or {}).get("record") == last)
        assert index.document() == {
            "record": last, "last": last, "is_whole": True, "problem": None,
        }  # fmt: skip

        assert index._process is not None
        os.kill(index._process.pid, signal.SIGKILL)
        await until(lambda: bool(said))
        await until(lambda: index.folder is not None)
        check(history, index.folder)
        await index.close()
        assert index.folder is None

    asyncio.run(run())
    assert said == ["the process that keeps the index has ended; it is started again"]
    with open_reader(history.path) as reader:
        found = find_index(history.path.parent / "cache" / "index", reader.store)
    check(history, found)


def test_a_small_world_and_a_machine_without_a_cache_have_none(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IX-50, IX-63"""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 10_000)

    async def run() -> None:
        index = kept(history, [])
        index.start()
        await asyncio.sleep(0.1)
        assert index.document() is None
        await index.close()
        monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
        use_own_cache(monkeypatch, None)
        index = kept(history, [])
        await index.run()
        assert index.document() is None

    asyncio.run(run())
    assert not (history.path.parent / "cache").exists()


def test_one_process_writes_and_the_next_one_takes_over(history: History, tmp_path: Path) -> None:
    """IX-32, IX-65: as of two fronts."""
    folder = tmp_path / "node" / "index"
    folder.parent.mkdir()

    async def run() -> None:
        first, second = kept(history, [], folder), kept(history, [], folder)
        first.start()
        await until(lambda: first.folder is not None)
        second.start()
        await until(lambda: second.folder is not None)
        check(history, second.folder)
        assert (second.document() or {})["record"] is None
        await first.close()
        await until(lambda: (second.document() or {}).get("record") is not None)
        check(history, second.folder)
        await second.close()

    asyncio.run(run())


def test_a_place_that_cannot_be_written_is_a_problem_and_no_index(
    history: History, tmp_path: Path
) -> None:
    """IX-64: it is tried again later."""
    folder = tmp_path / "node" / "index"

    async def run() -> None:
        index = kept(history, [], folder)
        index.start()
        await until(lambda: "problem" in (index._progress or {}))
        assert index.folder is None
        found = index.document()
        assert found is not None
        assert "No such file" in found["problem"]
        await index.close()

    asyncio.run(run())


def test_the_index_of_an_earlier_release_is_removed(history: History, tmp_path: Path) -> None:
    """IX-37"""
    folder = tmp_path / "node" / "index"
    old = tmp_path / "node" / "journal-index"
    for earlier in (folder, old):
        earlier.mkdir(parents=True, mode=0o700)
        for name in OLD_FILES:
            (earlier / name).write_bytes(b"of an earlier release")

    async def run() -> None:
        index = kept(history, [], folder)
        index.start()
        await until(lambda: index.folder is not None)
        check(history, index.folder)
        await index.close()

    asyncio.run(run())
    assert not old.exists()
    assert not {file.name for file in folder.iterdir()} & {*OLD_FILES}


def test_an_index_that_is_damaged_while_it_is_kept_is_made_again(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IX-31, IX-34: at the next start, after a line."""
    folder = tmp_path / "node" / "index"
    folder.parent.mkdir()
    file = open_to_write(folder, pytest.fail)
    assert file is not None
    file.close()
    (folder / INDEX_NAME).write_bytes(b"\x00" * 8192)

    async def run() -> None:
        index = kept(history, [], folder)
        index.start()
        await until(lambda: index.folder is not None)
        check(history, index.folder)
        await index.close()

    asyncio.run(run())


def test_the_index_follows_a_world_that_another_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IX-4, IX-9, IX-62: it is read while it is written."""
    monkeypatch.setattr(kept_index, "INDEXED_RECORDS", 1)
    path = counted(tmp_path / "world", 1, 2)

    async def run(reader: WorldReader) -> None:
        index = KeptIndex(path, lambda: reader.seq, pytest.fail, index_folder=tmp_path / "index")
        index.start()
        for number in range(3):
            await asyncio.to_thread(send, path, do("1"), do(f"new-{number}"))

            def is_taken(key: bytes = encode(f"new-{number}")) -> bool:
                reader.refresh()
                return reader.state.cells.get((PUPPET, key)) is not None and not reader.state.ring

            await until(is_taken)
            await until(lambda: (index.document() or {})["record"] == reader.seq)
            with read_at_head(tmp_path / "index", reader.store, reader.state) as found:
                assert found is not None
                check_index(found, reader.state, reader.store)
        await index.close()

    with running_kernel(path, executors=False), open_reader(path) as reader:
        asyncio.run(run(reader))


def send(path: Path, *items: Item) -> None:
    with open_writer(path) as writer:
        list(writer.send(items))
