"""Fixtures that several tests of the store share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.disk import SmallDisk
from tests.store.strace import need_strace


@pytest.fixture
def strace() -> None:
    need_strace()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path, megabytes=2) as disk:
        yield disk
