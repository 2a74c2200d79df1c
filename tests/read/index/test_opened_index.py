"""An index that stays open from one document to the next (spec/index.md, IX-32, IX-44)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos.host.folder.reader import open_reader
from aos.read.index.index_file import DATABASES, LOG, IndexFile, open_to_write
from aos.read.index.opened_index import OpenedIndex
from tests.read.index.histories import History
from tests.read.index.index_oracle import check_index
from tests.read.index.test_index_and_scan import PREFIXES, filled


@contextmanager
def writer_of(folder: Path) -> Iterator[IndexFile]:
    """A process that has an index open for writing."""
    file = open_to_write(folder, pytest.fail)
    assert file is not None
    with file:
        yield file


def fill(history: History, folder: Path) -> None:
    with filled(history.path, folder) as writer:
        writer.check()


def check(index: OpenedIndex, history: History, folder: Path) -> None:
    """Compare a document by the index with a scan of the world as it is now."""
    with (
        open_reader(history.path) as reader,
        index.at_head(folder, reader.store, reader.state) as found,
    ):
        assert found is not None
        check_index(found, reader.state, reader.store, prefixes=PREFIXES)


def helps(index: OpenedIndex, history: History, folder: Path) -> bool:
    with (
        open_reader(history.path) as reader,
        index.at_head(folder, reader.store, reader.state) as found,
    ):
        return found is not None


def is_open(index: OpenedIndex) -> bool:
    return index._file is not None


def test_it_stays_open_while_a_process_writes_to_it(tmp_path: Path) -> None:
    """IX-40, IX-44: each document has the records of its own moment, written or read on."""
    history, folder = History(tmp_path / "world", "opened"), tmp_path / "index"
    history.grow(60)
    fill(history, folder)
    files = []
    with OpenedIndex() as index:
        for has_new_rows in (False, False, True, False):
            if has_new_rows:
                fill(history, folder)
            with writer_of(folder):
                check(index, history, folder)
            files.append(index._file)
            history.grow(10)
    assert files[0] is not None
    assert all(file is files[0] for file in files)


def test_it_is_opened_again_once_other_files_are_in_its_folder(tmp_path: Path) -> None:
    """IX-3: an index that was rebuilt meanwhile, and one in another folder."""
    history, folder = History(tmp_path / "world", "replaced"), tmp_path / "index"
    history.grow(40)
    fill(history, folder)
    fill(history, tmp_path / "other")
    with OpenedIndex() as index:
        with writer_of(folder):
            check(index, history, folder)
        first_file = index._file
        with filled(history.path, folder) as writer:
            writer.index._begin_again()
            assert not helps(index, history, folder)  # it is being filled
            assert writer.advance()
            check(index, history, folder)
            assert index._file is not first_file
        with writer_of(tmp_path / "other"):
            check(index, history, tmp_path / "other")
            assert index._file is not None
            assert index._file.folder == tmp_path / "other"


def test_without_a_writer_it_is_checked_and_closed_for_each_document(tmp_path: Path) -> None:
    """IX-31, IX-32: a process can begin to write between two documents."""
    history, folder = History(tmp_path / "world", "alone"), tmp_path / "index"
    history.grow(30)
    fill(history, folder)
    with OpenedIndex() as index:
        with writer_of(folder):
            check(index, history, folder)
        assert is_open(index)
        logs = [folder / f"{name}{LOG}" for name in DATABASES]
        assert not any(log.exists() and log.stat().st_size for log in logs)
        check(index, history, folder)
        assert not is_open(index)
        with writer_of(folder):
            check(index, history, folder)
        data = bytearray((folder / DATABASES[0]).read_bytes())
        data[-1] ^= 1
        (folder / DATABASES[0]).write_bytes(data)
        assert not helps(index, history, folder)


def test_a_document_that_fails_closes_it(tmp_path: Path) -> None:
    """Nothing of its statements is left for the next document."""
    history, folder = History(tmp_path / "world", "fails"), tmp_path / "index"
    history.grow(30)
    fill(history, folder)

    def fail() -> None:
        with (
            open_reader(history.path) as reader,
            index.at_head(folder, reader.store, reader.state),
        ):
            raise BadUsage("no workflow is called so")

    with writer_of(folder), OpenedIndex() as index:
        with pytest.raises(BadUsage):
            fail()
        assert not is_open(index)
        check(index, history, folder)
