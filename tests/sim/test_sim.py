"""Simulated worlds from the seed of the run (spec/simulation.md). ``make sim SEEDS=...`` runs any
number of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.run_seed import seeds
from tests.sim import ends, governing, kernels, script, threads, worker
from tests.sim.__main__ import Tally, seeds_of
from tests.sim.failure import SimFailure
from tests.sim.found_at import FOUND_ALONE_AT, FOUND_AT
from tests.sim.minimise import minimise
from tests.sim.mutants import MUTANTS, Mutant, found
from tests.sim.plan import is_governed
from tests.sim.script import Command, script_of
from tests.sim.worker import SHARED
from tests.sim.world import SimWorld
from tests.test_layers import imports
from tests.tools import long_form

SEEDS = 3600 if long_form() else 32
PARTS = 8 if long_form() else 4
THREADED = 160 if long_form() else 8
PINNED = [
    202611302511,  # a proposal that a crash had lost was admitted again without its modules
]
ALONE = [each for each in MUTANTS if each.alone][: None if long_form() else 4]


@pytest.fixture(autouse=True)
def manifests_read_once() -> Iterator[None]:
    with ends.manifests_read_once():
        yield


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_every_promise(part: int) -> None:
    """Both kernels in lockstep; then each process has one of them (SIM-9)."""
    kernels.TALLY.clear()
    for seed in seeds(SEEDS)[part::PARTS]:
        try:
            ends.simulate(seed, by_both=True)
        except SimFailure as failure:
            pytest.fail(worker.report(seed, failure, 10.0), pytrace=False)
    assert {name for name, count in kernels.TALLY.items() if count} == {
        "kernels in lockstep", "calls", "frames", "second", "reference",
    }  # fmt: skip


@pytest.mark.parametrize("seed", PINNED)
def test_a_seed_that_once_failed_keeps_every_promise(seed: int) -> None:
    ends.simulate(seed, by_both=True)


def _governed_world() -> SimWorld:
    """A world whose first version is in force, and needs votes for the next one."""
    seed = next(seed for seed in range(1000) if is_governed(seed))
    script.know_keys(seed)
    world = SimWorld(seed)
    script.play(world, script_of(seed)[:2])
    assert governing.is_governed(world)
    return world


def test_a_proposal_lost_in_a_crash_is_refused_without_its_modules_and_admitted_with_them() -> None:
    """SIM-6: as a host does, since a snapshot must have the modules of each open proposal."""
    world = _governed_world()
    governing.propose(world, Random(1), world.plans[2], mode=None, leaves=())
    kind, proposal, modules = world.history.made[-1]
    assert modules
    assert world.state.proposals.open
    world.crash(runs=True)

    assert not world.state.proposals.open
    assert world.submit(kind, proposal) == ("refused", "proposal_is_invalid")
    assert not world.state.proposals.open
    admitted = world.submit(kind, proposal, modules)

    assert admitted is not None
    assert admitted[0] == "admitted"
    assert all(world.has(module) for module in modules)


def test_a_manifest_without_its_modules_is_refused() -> None:
    world = _governed_world()
    document = world.plans[2].document
    unsigned = {"document": document, "principal": "operator", "serial": 1, "signature": bytes(64)}

    assert world.submit("manifest", unsigned) == ("refused", "manifest_is_invalid")
    modules = world.plans[2].loaded.modules
    assert world.submit("manifest", unsigned, modules) == ("refused", "manifest_signature_is_wrong")


@pytest.mark.long
def test_the_engine_and_its_threads_keep_them_too() -> None:
    for seed in seeds(THREADED):
        try:
            # Only every second one: a call of both takes longer, and the timing is part of a seed.
            with kernels.in_lockstep() if seed % 2 else contextlib.nullcontext():
                threads.simulate(seed)
        except SimFailure as failure:
            pytest.fail(f"seed {seed}, through threads: {failure}", pytrace=False)


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_that_is_put_in_is_found(mutant: Mutant) -> None:
    """SIM-15. The short form begins with a seed that has found it before."""
    first = [] if long_form() else [FOUND_AT[mutant.name]]

    assert found(mutant, first=first) is not None


@pytest.mark.long
@pytest.mark.parametrize("mutant", ALONE, ids=lambda mutant: mutant.name)
def test_the_checker_finds_it_in_the_journal_alone(mutant: Mutant) -> None:
    first = [] if long_form() else [FOUND_ALONE_AT[mutant.name]]

    assert found(mutant, foretold=False, first=first) is not None


def test_another_process_with_another_hash_seed_comes_to_the_same_journal() -> None:
    """K-7."""
    told = []
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.sim.worker", *map(str, (SHARED, SHARED, 0, 1))],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        told.append([json.loads(line) for line in ran.stdout.splitlines()])

    assert told[0] == told[1]
    assert [each["seed"] for each in told[0]] == [SHARED]


def test_a_seed_names_one_script() -> None:
    assert script_of(7) == script_of(7)
    assert script_of(7) != script_of(8)


def test_a_failing_script_is_cut_down_to_what_fails() -> None:
    commands = [Command("send", i) for i in range(40)]

    def run(some: object) -> None:
        numbers = {each.number for each in some}  # type: ignore[attr-defined]  # commands
        if {3, 31} <= numbers:
            raise SimFailure("two", f"{len(numbers)} commands")
        if 5 in numbers:
            raise SimFailure("other", "not this one")

    kept, failure = minimise(commands, "two", run, seconds=10.0)

    assert kept == [3, 31]
    assert failure is not None
    assert failure.text == "2 commands"


def test_seeds_are_a_count_or_a_range() -> None:
    assert seeds_of("100") == (0, 99)
    assert seeds_of("5..9") == (5, 9)


def test_two_processes_that_differ_are_a_failure() -> None:
    tally = Tally(0, 2)
    same = {"seed": 0, "records": 3, "digest": "aa"}

    tally.take(same)
    tally.take(same)
    tally.take({**same, "seed": SHARED})
    assert not tally.failures

    tally.take({**same, "seed": SHARED, "digest": "bb"})
    assert "two processes came to different journals" in tally.failures[0]


def test_a_run_that_is_stopped_continues_with_the_first_seed_that_has_not_ended() -> None:
    """SIM-20: a seed that all processes run has ended when all of them have."""
    tally = Tally(SHARED - 1, SHARED + 3)
    shared = {"seed": SHARED, "records": 3, "digest": "aa"}
    nexts = []
    for told in (
        {**shared, "seed": SHARED + 1},
        {**shared, "seed": SHARED - 1},
        shared,
        shared,
        {"seed": SHARED + 2, "check": "model", "report": "on purpose"},
    ):
        tally.take(told)
        nexts.append(tally.next_seed - SHARED)

    assert nexts == [-1, 0, 0, 2, 3]
    assert tally.rest() == f"continue: make sim SEEDS={SHARED + 3}..{SHARED + 3}"
    assert f"3/5 seeds, next {SHARED + 3}, 9 records, 1 failures" in tally.line()
    tally.take({**shared, "seed": SHARED + 3})
    assert tally.rest() == ""


def test_ctrl_c_ends_a_run_with_the_command_that_continues_it() -> None:
    """SIM-20"""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sim", "100000"], stdout=subprocess.PIPE, process_group=0
    )
    assert process.stdout is not None
    try:
        begun = process.stdout.read(1)  # the first line of progress
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=240)[0].decode()
    finally:
        process.kill()

    assert begun == b"\r"
    assert process.returncode == 130
    assert re.search(r"\ncontinue: make sim SEEDS=[0-9]{1,3}\.\.99999\n$", printed)


def test_the_judges_of_the_core_share_no_code_with_it() -> None:
    """SIM-10, SIM-12."""
    folder = Path(__file__).parent
    judges = [*folder.glob("model*.py"), folder / "naive.py", folder / "checker.py"]
    assert len(judges) >= 6

    for path in judges:
        allowed = () if path.name == "checker.py" else ("aos.values.", "aos.errors.")
        found = [f"{name}." for name in imports(path) if name.startswith("aos")]
        assert all(name.startswith(allowed) for name in found), path
