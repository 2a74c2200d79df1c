"""Negative controls: the matrix catches executors and modules with a known fault.

The short form tries both naive executors and one mutant of the module, another each day.
"""

from __future__ import annotations

import pytest

from tests.gateway.matrix.controls import NAIVE, Control, controls, is_caught
from tests.gateway.matrix.runs import perform
from tests.gateway.matrix.site import Site
from tests.run_seed import rotated

MUTANTS = [each for each in controls() if each.module is not None]
CHOSEN = [each for each in controls() if each.module is None] + (
    rotated(MUTANTS) if MUTANTS else []
)


@pytest.mark.long
@pytest.mark.parametrize("control", CHOSEN, ids=[each.name for each in CHOSEN])
def test_a_known_fault_is_caught_with_work_and_step(site: Site, control: Control) -> None:
    seen = []
    for run in control.runs(site.folder):
        result = perform(site, run)
        seen.append(str(result))
        if is_caught(result):
            return
    pytest.fail("\n".join([f"{control.name} was not caught in these runs:", *seen]))


def test_both_naive_executors_and_six_mutants_are_controls() -> None:
    names = [each.name for each in controls()]
    assert names[: len(NAIVE)] == list(NAIVE)
    assert len(MUTANTS) == 6
