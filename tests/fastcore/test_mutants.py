"""Lockstep finds each of some sixty defects that a build of the second kernel has on purpose."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from aos.author.recorded_build import INCOMPARABLE, MISSING
from aos.fastcore import fast_kernel
from aos.fastcore.buffer import CoreCode
from aos.fastcore.decide_core import DecideCore
from aos.fastcore.errors import CoreDefect, CoreUnusable
from aos.host.errors import Stopping
from tests import test_scenarios
from tests.core import test_kernel_protocol
from tests.fastcore import deciding as deciding_module
from tests.fastcore.deciding import deciding
from tests.fastcore.lockstep import Differs
from tests.fastcore.mutants import HOST_FAILS, MUTANTS, OWED_FIRST, altered_crate, switched
from tests.fastcore.paired_kernel import open_paired, paired
from tests.fastcore.test_build import CORE, CRATE
from tests.sim import ends
from tests.tools import long_form, missing

SCENARIOS = sorted(test_scenarios.SCENARIOS.glob("*.txt"))
SEEDS = range(1, 13)
"""Simulated worlds for a defect that no scenario meets."""


def test_each_defect_is_in_the_sources_once() -> None:
    """It needs no compiler: the long form builds and finds them."""
    assert len(MUTANTS) >= 55
    for number, mutant in enumerate(MUTANTS, 1):
        mutant.written_into((CRATE / "src" / mutant.file).read_text("utf-8"), number)


def test_the_shipped_core_has_no_switch() -> None:
    assert not (CRATE / "src/mutants.rs").exists()
    assert b"mutants" not in CORE.read_bytes()


def test_a_defect_that_one_test_finds_names_one_of_the_protocol() -> None:
    named = {mutant.test for mutant in MUTANTS} - {""}
    assert named <= vars(test_kernel_protocol).keys()
    assert {OWED_FIRST, HOST_FAILS} <= named


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> CoreCode:
    """The core with all defects."""
    folder = tmp_path_factory.mktemp("mutants")
    crate, into = folder / "kernel/rust-core", folder / "into"
    altered_crate(CRATE, crate)
    committed = folder / "kernel/aos/fastcore"
    committed.mkdir(parents=True)
    for suffix in (".wasm", ".sha256"):
        (committed / "core").with_suffix(suffix).write_bytes(CORE.with_suffix(suffix).read_bytes())
    ran = subprocess.run(
        [sys.executable, crate / "build", "--check", "--into", into],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == MISSING:
        missing(ran.stdout + ran.stderr)
    assert ran.returncode in (1, INCOMPARABLE), ran.stdout + ran.stderr
    return CoreCode((into / "core.wasm").read_bytes())


class Switched(DecideCore):
    """A core with one defect."""

    number = 0

    def __init__(self, _: CoreCode, **arguments: Any) -> None:
        super().__init__(ALTERED[0], **arguments)
        switched(self, self.number)


ALTERED: list[CoreCode] = []


def play(test: str) -> None:
    """Run a test of the protocol with a pair of kernels."""
    body = getattr(test_kernel_protocol, test)
    arguments = {"opens": open_paired, "problem": Stopping("the world is stopping")}
    names = inspect.signature(body).parameters
    with paired() as pairs:
        body(**{name: arguments[name] for name in names})
    assert "opens" in names or all(pair.calls for pair in pairs)


@pytest.mark.parametrize("test", sorted({mutant.test for mutant in MUTANTS} - {""}))
def test_without_a_defect_the_test_that_finds_it_passes(test: str) -> None:
    play(test)


def worlds() -> Any:
    """Worlds that may meet a defect, the cheapest first."""
    for path in SCENARIOS:
        yield partial(test_scenarios.test_a_scenario_plays_as_it_is_written, path)
    for seed in SEEDS:
        yield partial(ends.simulate, seed, foretold=False)


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="the long form builds an altered core: two minutes")
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1))
def test_lockstep_finds_a_defect(
    number: int, altered: CoreCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ALTERED[:] = [altered]
    monkeypatch.setattr(Switched, "number", number)
    monkeypatch.setattr(deciding_module, "DecideCore", Switched)
    monkeypatch.setattr(fast_kernel, "DecideCore", Switched)
    test = MUTANTS[number - 1].test
    if test:
        with pytest.raises((Differs, CoreDefect, CoreUnusable)):
            play(test)
        return
    for world in worlds():
        with ends.manifests_read_once(), deciding():
            try:
                world()
            except (Differs, CoreDefect):
                return  # its message has the record or the frame
    pytest.fail(f"no world meets {MUTANTS[number - 1]}")
