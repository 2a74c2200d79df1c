"""The benchmark of flows: its worlds, a small run, its tables and its aims."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks.bench_world import STAGES, BenchWorld
from benchmarks.flow import air
from benchmarks.flow.__main__ import BENCHMARK, Options, measure_sleepers
from benchmarks.flow.tables import MODULE, flow_aims, flow_tables, operation_us
from benchmarks.flow.turns import SPREAD, STEPS

from aos.sandbox.stack import run_on_big_stack
from benchmarks import child, report

pytestmark = pytest.mark.rotated(3)

TINY = Options(
    finished=(1, 4), iterations=(2, 100), branches=(3,), space=(4, 40), rounds=2, turns=10,
    sleepers=20,
)  # fmt: skip


SLEEPERS: dict[str, Any] = {
    "flows": 20,
    "make": {"cells": 20, "seconds": 0.5},
    "start": {"cells": 20, "seconds": 0.1, "rss_anon_mib": 40.0, "store_bytes": 90_000},
    "woken": {"rate": 500.0},
    "few": {
        "flows": 10,
        "make": {"cells": 10, "seconds": 0.5},
        "start": {"cells": 10, "seconds": 0.1, "rss_anon_mib": 35.0, "store_bytes": 70_000},
        "woken": {"rate": 1_000.0},
    },
    "empty": {"cells": 0, "seconds": 0.1, "rss_anon_mib": 30.0, "store_bytes": 50_000},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.flow.__main__.measure_sleepers", lambda *_: SLEEPERS)
        found = BENCHMARK.run(TINY, tmp_path_factory.mktemp("flow"))
    read: dict[str, Any] = json.loads(json.dumps(found))
    return read


def test_the_manifest_is_that_of_the_modules() -> None:
    assert air.FILE.read_text() == air.text()


def test_each_turn_of_a_row_finishes_one_step(tmp_path: Path) -> None:
    def run() -> list[str]:
        with BenchWorld(tmp_path / "store", air.FILE) as world:
            world.send("bench/Begin@1", {"key": "a", "run": 7, "steps": 2})
            found = []
            for _ in range(2):
                turn = world.answer(STEPS, "a")
                assert len(turn.calls) == 1
                found.append(world.state(STEPS, "a")["status"])
            with pytest.raises(LookupError, match="expected an open effect"):
                world.answer(STEPS, "a")
            return found

    assert run_on_big_stack(run) == ["running", "completed"]


def test_a_join_ends_with_its_last_answer(tmp_path: Path) -> None:
    def run() -> list[str]:
        with BenchWorld(tmp_path / "store", air.FILE) as world:
            world.send("bench/Spread@1", {"key": "a", "branches": 2})
            found = []
            for _ in range(2):
                world.answer(SPREAD, "a")
                found.append(world.state(SPREAD, "a")["status"])
            return found

    assert run_on_big_stack(run) == ["running", "completed"]


def test_a_small_run_measures_every_part(tiny: dict[str, Any]) -> None:
    assert [each["size"] for each in tiny["rows"]] == [1, 4]
    assert [each["size"] for each in tiny["loops"]] == [2, 100]
    assert [each["size"] for each in tiny["sandbox"]] == [None, 1, 4]
    assert [each["branches"] for each in tiny["joins"]] == [3]
    assert [each["name"] for each in tiny["runs"]] == ["reducer", "flow"]
    assert tiny["runs"][0]["rate_ratio"] == 1 != tiny["runs"][1]["rate_ratio"] > 0
    assert len(tiny["space"]) == 4
    for each in (*tiny["rows"], *tiny["loops"]):
        assert set(each["stages_us"]) == set(STAGES)
        assert each["processor_us"] > each["stages_us"]["sandbox"] > 0


def test_a_finished_step_costs_the_same_fuel_each(tiny: dict[str, Any]) -> None:
    """Fuel is deterministic: a row reads and writes each finished step once in a turn."""
    _, one, four = (each["fuel"] for each in tiny["sandbox"])

    assert 1_000 < (four - one) / 3 < 10_000


def test_deltas_save_space_for_a_large_state(tiny: dict[str, Any]) -> None:
    """ST-90: a ledger of 40 orders is about 3 kB."""
    large = next(each for each in tiny["space"] if each["size"] == 40)

    assert 0 < large["deltas"]["bytes"] <= large["whole"]["bytes"]


def test_sleeping_flows_are_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_this_process(spec: dict[str, Any], *_: object, **__: object) -> Any:
        return child.run(child.Spec.read(spec))

    monkeypatch.setattr("benchmarks.flow.__main__.run_child", in_this_process)

    found = measure_sleepers(tmp_path / "sleepers", 20)

    assert found["start"]["cells"] == found["flows"] == 20
    assert found["empty"]["cells"] == 0
    assert found["start"]["store_bytes"] > found["empty"]["store_bytes"]
    assert found["woken"]["steps"] == found["few"]["woken"]["steps"] == 200
    assert found["snapshot"]["blobs"] > 0


def test_tables_and_aims_are_made_of_what_a_run_found(tiny: dict[str, Any]) -> None:
    text = flow_tables(tiny)

    for title in ("A turn of a flow", "A module alone", "Joins", "Flows that sleep"):
        assert f"### {title}" in text
    assert "## Flows" in report.render(None, None, "", flow=tiny)
    assert f"| {MODULE} | {tiny['sizes'][MODULE]:,} |" in text


@pytest.mark.parametrize(("ratio", "is_met"), [(1.5, True), (1.51, False)])
def test_a_turn_with_100_steps_may_take_half_as_long_again(
    tiny: dict[str, Any], ratio: float, *, is_met: bool
) -> None:
    found = deepcopy(tiny)
    found["rows"][1] |= {"size": 100, "processor_ratio": ratio}

    aim = flow_aims(found)[0]

    assert aim.is_met is is_met
    assert "100 finished steps" in aim.what


def test_an_operation_costs_the_slope_between_the_smallest_and_the_largest_row() -> None:
    rows = [
        {"size": None, "us": 20.0}, {"size": 1, "us": 30.0}, {"size": 10, "us": 99.0},
        {"size": 101, "us": 80.0},
    ]  # fmt: skip

    assert operation_us({"sandbox": rows}) == 0.5


def test_no_aim_is_met_or_missed_without_figures() -> None:
    assert {each.is_met for each in flow_aims(None)} == {None}


@pytest.mark.parametrize(
    ("flows", "figures", "are_met"),
    [
        (1_000_000, (150.0, 0.99, 500.0), [True, True, True]),
        (1_000_000, (150.1, 1.0, 499.0), [False, False, False]),
        (999_999, (150.1, 1.0, 499.0), [None, None, None]),
    ],
)
def test_the_aims_of_sleeping_flows_count_from_a_million_on(
    tiny: dict[str, Any],
    flows: int,
    figures: tuple[float, float, float],
    are_met: list[bool | None],
) -> None:
    mib, seconds, rate = figures
    start = SLEEPERS["start"] | {"rss_anon_mib": mib, "seconds": seconds}
    sleepers = SLEEPERS | {"flows": flows, "start": start, "woken": {"rate": rate}}

    aims = flow_aims(tiny | {"sleepers": sleepers})[-3:]

    assert [aim.is_met for aim in aims] == are_met


def test_results_without_a_small_world_have_a_table_too(tiny: dict[str, Any]) -> None:
    earlier = {name: SLEEPERS[name] for name in ("flows", "make", "start", "empty")}
    assert "| 20 | 40 | 0.10 | 40 |" in flow_tables(tiny | {"sleepers": earlier})
