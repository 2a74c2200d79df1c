"""Simulated clusters from the seed of the run (spec/cluster.md, CL-140 to CL-145). ``make
sim-cluster SEEDS=...`` runs any number of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.run_seed import in_turns, seeds
from tests.sim.cluster import simulate
from tests.sim.cluster_mutants import MUTANTS, ClusterMutant, found
from tests.sim.cluster_run import outcome
from tests.tools import long_form

SEEDS = 3000 if long_form() else 30
PARTS = 60 if long_form() else 3
"""Tests that share the seeds: a slow machine takes a second and more for one."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_cluster_keeps_every_promise(part: int) -> None:  # CL-142
    figures: Counter[str] = Counter()
    for seed in seeds(SEEDS)[part::PARTS]:
        _, result = outcome(seed)
        assert not isinstance(result, str), f"seed {seed}: {result}"
        figures.update(result)
    assert figures["takeovers"] > SEEDS // PARTS, "the story is one of takeovers"
    assert figures["acknowledged"] > 4 * figures["takeovers"]


@pytest.mark.long
@pytest.mark.parametrize("mutant", in_turns(3, MUTANTS), ids=lambda mutant: mutant.name)
def test_a_defect_that_is_put_in_is_found(mutant: ClusterMutant) -> None:  # CL-145
    """Its seed finds it; without it, the same seed passes."""
    assert found(mutant) is not None
    simulate(mutant.seed)


def test_a_seed_gives_the_same_story_again() -> None:  # CL-140
    assert simulate(5) == simulate(5)
