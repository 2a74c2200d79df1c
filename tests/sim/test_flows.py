"""Worlds of flows in the simulator (spec/simulation.md, SIM-8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.flow import model
from tests.run_seed import seeds
from tests.sim import ends, flows
from tests.sim.failure import SimFailure
from tests.sim.trace import line_of
from tests.tools import long_form

SEEDS: Final = 240 if long_form() else 3
FOUND_AT: Final = 20
"""A seed that finds the error of the test; it tries others, too."""


@pytest.fixture(autouse=True)
def manifests_read_once() -> Iterator[None]:
    with ends.manifests_read_once():
        yield


@pytest.mark.long
def test_flows_in_every_world_do_what_their_model_does() -> None:
    """SIM-8"""
    statuses: Counter[str] = Counter()
    for seed in seeds(SEEDS):
        try:
            compared = flows.simulate(seed)
        except SimFailure as failure:
            last = "\n".join(line_of(each) for each in failure.trace[-30:])
            pytest.fail(f"seed {seed}: {failure}\n{last}", pytrace=False)
        statuses.update(
            flow.status for cell, flow in compared.flows.items() if cell not in compared.left_out
        )
    assert statuses.total() > SEEDS
    assert statuses["completed"] > 0


@pytest.mark.long
def test_another_order_of_compensations_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-15: the oldest first, in the model."""

    def oldest_first(self: model.Flow, undos: list[model.Undo]) -> bool:
        if any(undo.state in ("running", "stuck") for undo in undos):
            return False
        left = [undo for undo in undos if undo.state == "registered"]
        if left:
            self.attempt_undo(left[0])
        return not left

    monkeypatch.setattr(model.Flow, "unwind", oldest_first)
    checks = {check_of(seed) for seed in (FOUND_AT, *range(60 if long_form() else 0))}
    assert "flows" in checks


def check_of(seed: int) -> str | None:
    """The check that a seed fails in."""
    try:
        flows.simulate(seed)
    except SimFailure as failure:
        return failure.check
    return None
