"""Disk space that is kept for removing data on a full disk (spec/store.md, ST-100 to ST-102)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.errors import Damage
from aos.store.lmdb_store import LmdbStore
from aos.store.room import RESERVE_BYTES, RESERVE_NAME, make_reserve, release_reserve
from tests.store.disk import SmallDisk


def test_the_reserve_is_allocated_and_can_be_freed(tmp_path: Path) -> None:
    """ST-100."""
    assert make_reserve(tmp_path)
    found = (tmp_path / RESERVE_NAME).stat()
    assert (found.st_size, found.st_mode & 0o777) == (RESERVE_BYTES, 0o600)
    assert found.st_blocks * 512 >= RESERVE_BYTES
    assert make_reserve(tmp_path)
    assert (tmp_path / RESERVE_NAME).stat().st_ino == found.st_ino, "it was made again"

    assert release_reserve(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not release_reserve(tmp_path)


@pytest.mark.parametrize("size", [0, RESERVE_BYTES, 2 * RESERVE_BYTES])
def test_a_reserve_that_a_crash_left_incomplete_is_replaced(tmp_path: Path, size: int) -> None:
    """ST-101, ST-102: sparse, as after a crash or in a copy."""
    with (tmp_path / RESERVE_NAME).open("wb") as made:
        made.truncate(size)

    assert make_reserve(tmp_path)

    found = (tmp_path / RESERVE_NAME).stat()
    assert found.st_size == RESERVE_BYTES
    assert found.st_blocks * 512 >= RESERVE_BYTES


@pytest.mark.parametrize(("megabytes", "is_made"), [(6, False), (9, True)])
def test_the_reserve_never_takes_the_last_of_the_disk(
    tmp_path: Path, megabytes: int, is_made: bool
) -> None:
    """ST-101."""
    with SmallDisk(tmp_path, megabytes=megabytes) as disk:
        assert make_reserve(disk.path) is is_made
        assert (disk.path / RESERVE_NAME).exists() is is_made


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """ST-80, ST-81."""
    target = tmp_path / "other"
    target.write_bytes(b"of someone else")
    folder = tmp_path / "store"
    LmdbStore.create(folder).close()
    (folder / RESERVE_NAME).symlink_to(target)
    with pytest.raises(Damage, match="reserve"):
        LmdbStore.open(folder)

    assert make_reserve(folder)

    assert target.read_bytes() == b"of someone else"
    assert not (folder / RESERVE_NAME).is_symlink()
    LmdbStore.open(folder).close()
