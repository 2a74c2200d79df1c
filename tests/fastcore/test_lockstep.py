"""The second kernel folds as the reference: worlds of other tests by record, and restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import test_scenarios
from tests.core.desk import DESK, desks, pay, tell, timer
from tests.fastcore.lockstep import Follower, Mirror, followed, mirrored
from tests.run_seed import seeds
from tests.sim import ends
from tests.tools import long_form

SEEDS = 60 if long_form() else 2
SCENARIOS = sorted(test_scenarios.SCENARIOS.glob("*.txt"))


@pytest.fixture
def mirrors() -> Iterator[list[Mirror]]:
    with mirrored(Mirror) as mirrors:
        yield mirrors


@pytest.fixture
def followers() -> Iterator[list[Follower]]:
    with followed() as followers:
        yield followers


def test_a_world_with_effects(mirrors: list[Mirror]) -> None:
    world = desks()
    tell(world, "a", pay(), timer(world, "t"))
    tell(world, "b", pay("x", 2), note="said")
    for intent in list(world.state.intents.values()):
        world.settle(intent, {"ref": "r"})
    world.run()
    tell(world, "b", note="fail")
    tell(world, "a", note="delete")
    assert DESK in world.state.cells.shelves
    assert all(mirror.frames for mirror in mirrors)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario(path: Path, mirrors: list[Mirror]) -> None:
    test_scenarios.test_a_scenario_plays_as_it_is_written(path)
    assert all(mirror.frames for mirror in mirrors)


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_simulated_world(seed: int, mirrors: list[Mirror], followers: list[Follower]) -> None:
    """Its kernels, and its restarts, with everything that happens to them."""
    with ends.manifests_read_once():
        ends.simulate(seed, foretold=False)
    assert mirrors
    assert followers
