"""Measure the time, space and memory of flows: ``python -m benchmarks.flow`` (``make bench-flow``).

A whole run writes ``benchmarks/results/flow.json`` and ``benchmarks/RESULTS.md``; one with other
numbers prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
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
from benchmarks.machine import machine
from benchmarks.processes import run_child, stoppable
from benchmarks.scratch import DEFAULT, scratch

MAKE_S: Final = 1_800.0
SIZES: Final = {
    "three steps, flow": "flow-steps",
    "three steps, reducer": "rust-steps",
    "loop, join and sleep, three flows": "flow-shapes",
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``finished`` steps, ``iterations`` and ``branches`` are the sizes at which turns are taken,
    ``rounds`` of each. ``space`` are the sizes of cells, ``turns`` the turns, whose bytes are
    counted. ``sleepers`` flows sleep while their world starts."""

    finished: tuple[int, ...] = (1, 10, 100, 1_000)
    iterations: tuple[int, ...] = (10, 100_000)
    branches: tuple[int, ...] = (100, 1_000)
    space: tuple[int, ...] = (10, 1_000)
    rounds: int = 40
    turns: int = 200
    sleepers: int = 100_000

    @property
    def is_whole(self) -> bool:
        return self == Options()


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
    began = time.monotonic()
    found: Json = {
        "kind": "flow",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": asdict(options),
        "machine": machine(folder),
        "sizes": {
            name: (SOURCES / package / f"{package}.wasm").stat().st_size
            for name, package in SIZES.items()
        },
    }
    run_on_big_stack(lambda: found.update(_in_one_thread(options, folder)))
    _tell(f"{options.sleepers:,} flows that sleep")
    found["sleepers"] = measure_sleepers(folder / "sleepers", options.sleepers)
    found["seconds"] = round(time.monotonic() - began)
    return found


def _in_one_thread(options: Options, folder: Path) -> Json:
    found: Json = {}
    rounds = options.rounds
    _tell("modules alone")
    found["sandbox"] = measure_sandbox(folder / "sandbox", options.finished, rounds)
    _tell("whole runs")
    found["runs"] = measure_runs(folder, 2 * rounds)
    _tell("steps in a row")
    found["rows"] = measure_rows(folder / "rows", options.finished, rounds)
    _tell("loops")
    found["loops"] = measure_loops(folder / "loops", options.iterations, rounds)
    _tell("joins")
    found["joins"] = measure_joins(folder / "joins", options.branches)
    _tell("bytes of the store")
    found["space"] = measure_space(folder, options.space, options.turns)
    return found


def measure_sleepers(folder: Path, count: int) -> Json:
    """Start so many flows, each of which sleeps for a month, and then their world again."""
    folder.mkdir()
    world: Json = {"workload": "sleepers", "path": folder / "world"}
    made = run_child({**world, "do": "make", "size": count}, folder, timeout_s=MAKE_S)
    started = run_child({**world, "do": "measure"}, folder, timeout_s=MAKE_S)
    empty: Json = {"workload": "sleepers", "path": folder / "empty"}
    run_child({**empty, "do": "make"}, folder, timeout_s=MAKE_S)
    base = run_child({**empty, "do": "measure"}, folder, timeout_s=MAKE_S)
    return {"flows": count, "make": made, "start": started["start"], "empty": base["start"]}


def _tell(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str]) -> tuple[Options, Path, Path | None]:
    """Options of the run, a folder on the disk for its worlds, and the file to write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flow", description=(__doc__ or "").split("\n", 1)[0]
    )
    whole = Options()
    parser.add_argument("--quick", action="store_true", help="smaller flows, half a minute")
    parser.add_argument("--rounds", type=int, help=f"of each size ({whole.rounds})")
    parser.add_argument("--turns", type=int, help=f"whose bytes are counted ({whole.turns})")
    parser.add_argument("--sleepers", type=int, help=f"flows that sleep ({whole.sleepers:,})")
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(arguments)
    base = asdict(QUICK if given.quick else whole)
    named = {name: getattr(given, name) for name in ("rounds", "turns", "sleepers")}
    asked = {name: value for name, value in named.items() if value is not None}
    return Options(**{**base, **asked}), given.dir, given.out


def main(arguments: Sequence[str] | None = None) -> int:
    options, below, out = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable(), scratch(below) as folder:
            found = measure(options, folder)
    except KeyboardInterrupt:
        return 130
    except AosError as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        return 1
    report.keep(found, flow_tables, path=report.FLOW, is_whole=options.is_whole, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
