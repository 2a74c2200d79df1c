"""The second kernel decides as the reference: worlds of other tests, decision by decision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import test_scenarios
from tests.fastcore.deciding import DecidingMirror, deciding

SCENARIOS = sorted(test_scenarios.SCENARIOS.glob("*.txt"))


@pytest.fixture
def mirrors() -> Iterator[list[DecidingMirror]]:
    with deciding() as mirrors:
        yield mirrors


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario(path: Path, mirrors: list[DecidingMirror]) -> None:
    test_scenarios.test_a_scenario_plays_as_it_is_written(path)
    assert all(mirror.frames for mirror in mirrors)
    assert sum(mirror.decisions for mirror in mirrors)
