"""Worlds as real processes on a real node, killed everywhere: no law is broken (``matrix/``).

The short form has some runs of each kind, others each day; the long form has all.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.shell import ROOT
from tests.cli.shell import run as run_aos
from tests.gateway.matrix.deaths import IN_WORKER, Death, Point
from tests.gateway.matrix.modes import MODES, all_runs, sample
from tests.gateway.matrix.runs import Run, perform
from tests.gateway.matrix.site import Site
from tests.run_seed import run_seed
from tests.tools import long_form

SAMPLE = 12
PARTS = 8 if long_form() else 1
"""Long tests that share the runs, so that several processes can have them."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_world_that_is_killed_anywhere_does_each_thing_once(site: Site, part: int) -> None:
    """GW-1 to GW-4, GW-20 to GW-26, GW-30, GW-40 to GW-45, GW-55"""
    chosen = all_runs()[part::PARTS] if long_form() else sample(run_seed(), SAMPLE)
    results = [perform(site, run) for run in chosen]
    assert [str(each) for each in results if not each.is_good] == []
    assert sum(each.kills for each in results) > len(results) / 3


def test_a_world_that_was_killed_verifies_replays_and_agrees_with_its_chain(site: Site) -> None:
    """By the commands themselves, each in a process of its own."""
    death = Death(point=IN_WORKER[run_seed() % len(IN_WORKER)], number=3)
    run = Run(mode="replayed", name=str(death), deaths=(death,), snapshot_records=20)
    result = perform(site, run, keeps=True)
    assert result.is_good, str(result)
    bundle = result.folder / "world.aos"
    assert run_aos("verify", bundle).code == 0
    replayed = run_aos("replay", "--world", result.folder / "world")
    assert replayed.code == 0
    assert "byte-identical" in replayed.out
    node = site.chain.url
    checked = subprocess.run(
        [sys.executable, "-m", "tests.gateway.checker", str(bundle), "--rpc", node],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.endswith(" 0 findings\n")


def test_the_matrix_kills_at_every_record_and_at_every_point() -> None:
    runs = list(MODES["every_commit"]())
    for point in (Point.BEFORE_COMMIT, Point.AFTER_COMMIT):
        numbers = [each.deaths[0].number for each in runs if each.deaths[0].point is point]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert {each.is_revealed for each in runs} == {False, True}
    assert len({str(each) for each in all_runs()}) == len(all_runs())
    assert {each.deaths[0].point for each in MODES["every_send"]()} == set(IN_WORKER)
    assert len({each.mode for each in MODES["while_down"]()}) == 13


def test_a_sample_has_runs_of_every_mode_and_depends_on_its_seed() -> None:
    chosen = sample(1, len(MODES))
    assert len({each.mode for each in chosen}) == len(MODES)
    assert [str(each) for each in chosen] == [str(each) for each in sample(1, len(MODES))]
    assert [str(each) for each in chosen] != [str(each) for each in sample(2, len(MODES))]
