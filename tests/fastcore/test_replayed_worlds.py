"""Both kernels decide the journals of whole worlds again, and report the same (CR-16, CR-32)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import ReplayReport
from tests import test_scenarios
from tests.fastcore.owned_kernel import OPENERS
from tests.memory_world import MemoryWorld

SCENARIOS = sorted(test_scenarios.SCENARIOS.glob("*.txt"))


def report_by(core: str, world: MemoryWorld) -> ReplayReport:
    report = replay(world.frames, world.read, world.runner, opens=OPENERS[core])
    return replace(report, seconds=0.0)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_is_replayed_by_both(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[MemoryWorld] = []

    class Noted(MemoryWorld):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            worlds.append(self)

    monkeypatch.setattr(test_scenarios, "MemoryWorld", Noted)
    test_scenarios.played(path.read_text("utf-8"))
    (world,) = worlds
    world.seal()

    report = report_by("fast", world)

    assert report == report_by("python", world)
    assert report.seq == world.frames[-1].header.last
