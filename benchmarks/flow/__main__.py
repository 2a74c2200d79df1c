"""Measure the time, space and memory of flows: ``python -m benchmarks.flow`` (``make bench-flow``).

A whole run writes ``benchmarks/results/flow.json`` and ``benchmarks/RESULTS.md``; one with other
numbers prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.flow.air import SOURCES
from benchmarks.flow.space import measure_space
from benchmarks.flow.tables import flow_tables
from benchmarks.flow.turns import (
    measure_joins,
    measure_loops,
    measure_rows,
    measure_runs,
    measure_sandbox,
)
from benchmarks.processes import run_child

MAKE_S: Final = 1_800.0
SIZES: Final = {
    "three steps, flow": "flow-steps",
    "three steps, reducer": "rust-steps",
    "loop, join and sleep, three flows": "flow-shapes",
}

FEW_SLEEPERS: Final = 1_000
"""Flows of the small world that a large one is compared with."""

WOKEN: Final = 3_000
"""Steps of random flows that sleep."""

IN_FLIGHT: Final = 64

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``finished`` steps, ``iterations`` and ``branches`` are the sizes at which turns are taken,
    ``rounds`` of each. ``space`` are the sizes of cells, ``turns`` the turns, whose bytes are
    counted. ``sleepers`` flows sleep while their world starts, and some of them are woken."""

    finished: tuple[int, ...] = (1, 10, 100, 1_000)
    iterations: tuple[int, ...] = (10, 100_000)
    branches: tuple[int, ...] = (100, 1_000)
    space: tuple[int, ...] = (10, 1_000)
    rounds: int = 40
    turns: int = 200
    sleepers: int = 1_000_000


QUICK: Final = Options(
    finished=(1, 10, 100),
    iterations=(10, 1_000),
    branches=(10, 100),
    space=(10, 100),
    rounds=8,
    turns=40,
    sleepers=5_000,
)


def measure(options: Options, folder: Path) -> Json:
    """Measure everything, each part in worlds of its own below ``folder``."""
    found: Json = {
        "sizes": {
            name: (SOURCES / package / f"{package}.wasm").stat().st_size
            for name, package in SIZES.items()
        },
    }
    run_on_big_stack(lambda: found.update(_in_one_thread(options, folder)))
    tell(f"{options.sleepers:,} flows that sleep")
    found["sleepers"] = measure_sleepers(folder / "sleepers", options.sleepers)
    return found


def _in_one_thread(options: Options, folder: Path) -> Json:
    found: Json = {}
    rounds = options.rounds
    tell("modules alone")
    found["sandbox"] = measure_sandbox(folder / "sandbox", options.finished, rounds)
    tell("whole runs")
    found["runs"] = measure_runs(folder, 2 * rounds)
    tell("steps in a row")
    found["rows"] = measure_rows(folder / "rows", options.finished, rounds)
    tell("loops")
    found["loops"] = measure_loops(folder / "loops", options.iterations, rounds)
    tell("joins")
    found["joins"] = measure_joins(folder / "joins", options.branches)
    tell("bytes of the store")
    found["space"] = measure_space(folder, options.space, options.turns)
    return found


def measure_sleepers(folder: Path, count: int) -> Json:
    """Start so many flows, each of which sleeps for a month; take a snapshot, and start their world
    again, in which random flows take a step. Then the same with few flows, and with none."""
    folder.mkdir()
    few = min(count, FEW_SLEEPERS)
    empty: Json = {"workload": "sleepers", "path": folder / "empty"}
    run_child({**empty, "do": "make"}, folder, timeout_s=MAKE_S)
    base = run_child({**empty, "do": "measure"}, folder, timeout_s=MAKE_S)
    return {
        "flows": count,
        **_sleepers(folder, "world", count),
        "few": {"flows": few, **_sleepers(folder, "few", few)},
        "empty": base["start"],
    }


def _sleepers(folder: Path, name: str, count: int) -> Json:
    world: Json = {"workload": "sleepers", "path": folder / name, "size": count}
    made = run_child({**world, "do": "make"}, folder, timeout_s=MAKE_S)
    snapshot = run_child({**world, "do": "snapshot"}, folder, timeout_s=MAKE_S)
    point = {"in_flight": IN_FLIGHT, "items": min(WOKEN, 10 * count)}
    started = run_child({**world, "do": "measure", "points": [point]}, folder, timeout_s=MAKE_S)
    return {
        "make": made,
        "snapshot": snapshot,
        "start": started["start"],
        "woken": started["points"][0],
    }


BENCHMARK: Final = Benchmark(
    name="flow",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="smaller flows, half a minute",
    helps={
        "rounds": "of each size ({})",
        "turns": "whose bytes are counted ({})",
        "sleepers": "flows that sleep ({:,})",
    },
    measure=measure,
    tables=flow_tables,
    path=report.FLOW,
    has_kernels=True,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
