"""Both kernels decide the journals of whole worlds again, and report the same (CR-16, CR-32)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.core.kernel_protocol import KernelProtocol
from aos.fastcore import buffer
from aos.fastcore.core_kind import QUICK_RECORDS_MAX, CoreKind
from aos.fastcore.fast_kernel import open_fast_kernel
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import ReplayReport
from aos.prove.replay.replay_store import replay_store
from aos.testing.play import _played
from aos.testing.scenario import parse
from tests import test_scenarios
from tests.core.cases import cases, tell
from tests.fastcore.owned_kernel import OPENERS, open_owned
from tests.fastcore.paired_kernel import paired
from tests.memory_world import MemoryWorld
from tests.modules.guests import ROOT

SCENARIOS = sorted(test_scenarios.SCENARIOS.glob("*.txt"))
STORIES = sorted((ROOT / "manifests").rglob("*.scenario.toml"))
"""Those of the cookbook."""


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


def test_a_replay_of_few_records_compiles_quickly_and_reports_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CR-34."""
    monkeypatch.setattr(buffer, "_compiled", {})
    world = cases()
    tell(world, "a")
    tell(world, "b", note="fail")

    def opens(**arguments: Any) -> KernelProtocol:
        return open_owned(**arguments, code=buffer.shipped_code(is_quick=True))

    report = replay(world.frames, world.read, world.runner, opens=opens)

    assert replace(report, seconds=0.0) == report_by("python", world)
    assert [is_quick for _, is_quick in buffer._compiled] == [True]
    assert CoreKind.FAST.replays(QUICK_RECORDS_MAX) is not open_fast_kernel
    assert CoreKind.FAST.replays(QUICK_RECORDS_MAX + 1) is open_fast_kernel


@pytest.mark.rotated(3)
@pytest.mark.parametrize("path", STORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_world_of_the_cookbook_is_run_and_replayed_by_both(path: Path) -> None:
    with paired() as pairs:
        failure, world = _played(replace(parse(path.read_bytes(), path), crashes=False), 0)

    assert failure is None
    assert world is not None
    assert sum(pair.frames for pair in pairs)
    assert all(pair.is_pair for pair in pairs)
    reports = [
        replace(replay_store(world._desk.store, core=core), seconds=0.0) for core in CoreKind
    ]
    assert reports[0] == reports[1]


def test_the_cookbook_has_stories() -> None:
    assert {path.parent.name for path in STORIES} >= {"saga", "billing", "flow_agent", "linear"}
