"""A damaged store file is reported, not crashed on (spec/audit.md, A-29)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aos.core.journal.frame import Head
from aos.errors import BadUsage
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify_world import STORE_FOLDER, verify_world
from aos.store.lmdb_store import LmdbStore
from tests.memory_world import WORLD_KEY
from tests.prove.journals import busy_shop

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world folder on disk with the busy shop in it."""
    folder = tmp_path_factory.mktemp("audit") / "whole"
    folder.mkdir()
    world = busy_shop()
    with LmdbStore.create(folder / STORE_FOLDER) as store:
        store.put_blobs(world.blobs)
        for group in world.sealed:
            head = store.head()
            expected = group.frame.header.prev if head is None else head.frame
            store.append([group], Head.of(group.tip).signed(WORLD_KEY), expected=expected)
    return folder


def test_a_world_on_disk_is_verified_by_a_child(whole: Path) -> None:
    """A-29."""
    reached: list[int] = []

    report = verify_world(whole, on_progress=reached.append)

    assert report.is_sound
    assert report.records == 28
    assert reached[-1] == 28
    assert sorted(each.name for each in whole.iterdir()) == [STORE_FOLDER]


def test_any_page_of_the_file_may_be_garbage(whole: Path, tmp_path: Path) -> None:
    """A-29. Some pages kill the child; each way there is a report, and the reader lives."""
    data = (whole / STORE_FOLDER / "data.mdb").read_bytes()
    killed = unsound = 0
    for page in range(0, len(data) // PAGE, 3):
        folder = tmp_path / f"page-{page}"
        shutil.copytree(whole, folder)
        damaged = bytearray(data)
        damaged[page * PAGE + 16 : page * PAGE + 64] = b"\xff" * 48
        (folder / STORE_FOLDER / "data.mdb").write_bytes(bytes(damaged))

        report = verify_world(folder)

        unsound += not report.is_sound
        killed += any("killed the process" in each.message for each in report.findings)
    assert unsound > killed > 0


def test_a_file_that_is_cut_off_is_a_finding(whole: Path, tmp_path: Path) -> None:
    """A-29."""
    folder = tmp_path / "cut"
    shutil.copytree(whole, folder)
    file = folder / STORE_FOLDER / "data.mdb"
    file.write_bytes(file.read_bytes()[: 9 * PAGE])

    report = verify_world(folder)

    assert report.findings[0].kind is FindingKind.STORE_UNREADABLE


def test_a_folder_that_is_no_world_is_named(tmp_path: Path) -> None:
    """A-29."""
    with pytest.raises(BadUsage, match="there is no world here"):
        verify_world(tmp_path)
