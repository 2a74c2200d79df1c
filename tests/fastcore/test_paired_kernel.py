"""A pair finds a kernel that decides, folds, spills or counts otherwise than the other (CR-16)."""

from __future__ import annotations

from typing import Final

import pytest

from aos.core.kernel import Kernel
from tests.core.desk import desks, tell
from tests.fastcore.lockstep import Differs
from tests.fastcore.paired_kernel import PairedKernel, paired
from tests.fastcore.random_cases import RandomCases
from tests.sim.mutants import MUTANTS, Mutant

NAMES: Final = {
    "the ring runs the newest first",
    "a settled intent stays open",
    "the entry that failed is dropped",
    "a status that changes is counted wrongly",
    "a snapshot sorts the ring",
}
"""Bugs of the simulator that are put into the reference here; the second kernel lacks them."""

SEEDS: Final = range(12)


@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.name in NAMES], ids=lambda mutant: mutant.name
)
def test_a_bug_in_one_kernel_is_a_difference(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.put(monkeypatch)

    def play() -> None:
        for seed in SEEDS:
            RandomCases(seed).play()

    with paired(), pytest.raises(Differs):
        play()


def test_all_bugs_of_this_file_exist() -> None:
    assert {each.name for each in MUTANTS} >= NAMES


def test_every_method_of_the_protocol_goes_to_both() -> None:
    """Else a difference of one could stay unseen."""
    inherited = {"read", "tip", "next_seq", "manifest", "ready_cells", "base"}
    inherited |= {"pending_records", "pending_bytes", "pending_blob_bytes"}
    names = {name for name in vars(Kernel) if not name.startswith("_")}

    assert names - vars(PairedKernel).keys() == inherited


def test_the_inherited_ones_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with paired() as pairs:
        world = desks()
        tell(world, "a")
        pair = pairs[-1]
        pair.compare_all()
        monkeypatch.setattr(Kernel, "base", property(lambda _: 5))
        with pytest.raises(Differs, match="base"):
            pair.compare_all()
