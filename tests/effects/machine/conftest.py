"""A machine for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effects.machine.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "root").mkdir()
    return Bench(tmp_path)
