"""A world on one and on three servers: ``python -m benchmarks.cluster``, or ``make bench-cluster``.

A whole run writes ``benchmarks/results/cluster.json`` and ``benchmarks/RESULTS.md``; a quick one
prints its tables alone.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from aos.host.nats_program import check_release, find_nats_server
from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.cluster.restate_cluster import measure_restate, measure_restate_kills
from benchmarks.cluster.shards import FEW, SHARDS, measure_shards
from benchmarks.cluster.steady import SETUPS, measure_setup
from benchmarks.cluster.tables import RESTATE_CLUSTER, cluster_tables
from benchmarks.cluster.takeovers import measure_takeovers
from benchmarks.peers import tools
from benchmarks.plan import Point

Json = dict[str, Any]

IN_FLIGHT: Final = (1, 64)
WARM_S: Final = 0.5
TURN_S: Final = 12
"""Seconds that the processes of a turn take to start and to end."""

CYCLE_S: Final = (5, 10)
"""Seconds from the end of a process until the next may be ended, and more for a million cells."""

MAKING_S: Final = (20, 340)
"""Seconds until the world has two nodes, and more for a million cells."""

SHARDS_S: Final = (8, 1 / 300)
"""Seconds until a group is ready, and more for each event to it."""

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The sizes of a run. ``elections`` are kills of the stream's leader."""

    rounds: int = 3
    seconds: float = 5.0
    cells: int = 1_000_000
    kills: int = 30
    handovers: int = 30
    moves: int = 30
    elections: int = 10
    events: int = 20_000


QUICK: Final = Options(
    rounds=1, seconds=1.0, cells=10_000, kills=3, handovers=2, moves=2, elections=1, events=1_000
)


def minutes(options: Options) -> int:
    """About how long a run takes."""
    turns = options.rounds * (len(SETUPS) + 1)
    steady_s = turns * (TURN_S + len(IN_FLIGHT) * (options.seconds + WARM_S))
    ended = 2 * options.kills + options.handovers + options.moves + options.elections
    cycle_s, making_s = (
        least + more * options.cells / MILLION for least, more in (CYCLE_S, MAKING_S)
    )
    ready_s, event_s = SHARDS_S
    shards_s = len(SHARDS) * (ready_s + (3 * FEW + options.events) * event_s)
    return max(1, round((steady_s + ended * cycle_s + making_s + shards_s) / 60))


def measure(options: Options, folder: Path) -> Json:
    """Measure everything; the setups take turns.

    Raises:
        BadUsage, Refused: There is no nats-server, or it is too old.
        Unavailable: A process of AOS failed.
    """
    program = find_nats_server()
    check_release(program)
    tell(f"about {minutes(options)} minutes on two quiet cores")
    missing: dict[str, str] = {}
    figures: Json = {
        "missing": missing,
        "versions": {"nats-server": tools.version_of(program, "--version", after="v")},
        "steady": [],
    }
    _install_restate(figures)
    points = [
        Point(in_flight=number, cells="fresh", seconds=options.seconds, warm_s=WARM_S)
        for number in IN_FLIGHT
    ]
    for number in range(1, options.rounds + 1):
        tell(f"round {number} of {options.rounds}")
        for place, setup in enumerate(SETUPS):
            own = folder / f"turn-{number}-{place}"
            _keep_turn(figures, _in_folder(own, partial(measure_setup, setup, points)))
        _with_restate(
            figures, partial(_restate_turn, figures, folder / f"restate-{number}", points)
        )
    figures["shards"] = _in_folder(
        folder / "shards", partial(measure_shards, events=options.events)
    )
    figures["takeovers"] = _in_folder(
        folder / "takeovers",
        partial(
            measure_takeovers, cells=options.cells, kills=options.kills,
            handovers=options.handovers, moves=options.moves, elections=options.elections,
        ),
    )  # fmt: skip
    _with_restate(figures, partial(_restate_kills, figures, folder / "restate", options))
    return figures


def _restate_turn(figures: Json, folder: Path, points: list[Point]) -> None:
    measured = _in_folder(folder, partial(measure_restate, points))
    _keep_turn(figures, {"setup": RESTATE_CLUSTER, "points": measured, "lag_ms": None})


def _restate_kills(figures: Json, folder: Path, options: Options) -> None:
    figures["restate"] = _in_folder(folder, partial(measure_restate_kills, kills=options.kills))


def _install_restate(figures: Json) -> None:
    try:
        version = tools.version_of(tools.restate_server(), "--version")
        package = tools.NODE / "node_modules" / "@restatedev" / "restate-sdk" / "package.json"
        sdk = json.loads(package.read_text())["version"]
        figures["versions"] |= {"restate-server": version, "@restatedev/restate-sdk": sdk}
    except tools.NotInstalled as problem:
        figures["missing"][RESTATE_CLUSTER] = f"not installed: {problem}"


def _with_restate(figures: Json, act: Callable[[], object]) -> None:
    """Measure Restate. If it fails, that is noted, and it is left out from then on."""
    if RESTATE_CLUSTER in figures["missing"]:
        return
    try:
        act()
    except (AosError, OSError) as problem:
        figures["missing"][RESTATE_CLUSTER] = str(problem)
        tell(f"  {RESTATE_CLUSTER}: {problem}")


def _in_folder(folder: Path, act: Callable[[Path], Any]) -> Any:
    """Measure in a folder of its own, which is removed then: the disk may be small."""
    folder.mkdir()
    try:
        return act(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_turn(figures: Json, turn: Json) -> None:
    figures["steady"].append(turn)
    for point in turn["points"]:
        p50 = (point["finish_ms"] or {}).get("p50", 0.0)
        tell(
            f"  {turn['setup']}, {point['in_flight']} in flight: {point['rate']:,.0f}/s, "
            f"p50 {p50:.1f} ms"
        )


BENCHMARK: Final = Benchmark(
    name="cluster",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="10,000 cells, three kills, four minutes",
    helps={
        "rounds": "({})",
        "seconds": "of one load ({})",
        "cells": "of the world that is taken over ({})",
        "kills": "of the owner, and of Restate's leader ({})",
        "handovers": "planned ({})",
        "moves": "by the command ({})",
        "events": "to each group of shards ({})",
        "elections": "after the stream's leader is killed ({})",
    },
    measure=measure,
    tables=cluster_tables,
    path=report.CLUSTER,
    keeps_partial=True,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
