"""Measure a world whose cells are at rest: ``python -m benchmarks.rest``, or ``make bench-rest``.

A whole run writes ``benchmarks/results/rest.json`` and ``benchmarks/RESULTS.md``. One with other
sizes prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.processes import run_child
from benchmarks.rest.commands import housekeeping
from benchmarks.rest.disk import disk
from benchmarks.rest.tables import rest_tables

CHILD_S: Final = 120.0
"""Time that a process may take in addition to the measured time, in seconds."""

SLOWEST_RATE: Final = 300
"""Events a second that even a busy machine takes."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``small`` are the cells of the world that the large one is compared with. ``every`` records a
    snapshot is made while the cells are made, ``since`` are those that a restart has to read."""

    cells: int = 1_000_000
    small: int = 10_000
    every: int = 50_000
    rounds: int = 3
    seconds: float = 4.0
    shares: tuple[float, ...] = (0.001, 0.01, 0.1)
    rate: float = 500.0
    steady_share: float = 0.02
    since: int = 50_000
    reads: int = 5_000
    commands: int = 5
    waiting: int = 5_000


QUICK: Final = Options(
    cells=20_000, small=2_000, every=20_000, rounds=1, seconds=1.0, since=4_000, reads=500,
    commands=1, waiting=500,
)  # fmt: skip


class Rest:
    """One run, in ``folder``."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._large: Json = {"path": folder / "large", "cells": options.cells}
        self._small: Json = {"path": folder / "small", "cells": options.small}

    def run(self) -> Json:
        options, path = self._options, Path(self._large["path"])
        found: Json = {
            "made": [self._make(world) for world in (self._small, self._large)],
        }
        found["disk"] = disk(path)
        found["rounds"] = [self._round(number) for number in range(options.rounds)]
        tell("snapshots after some of the cells have changed, and what they cost who sends")
        found |= self._do(
            "snapshots",
            self._large,
            shares=options.shares,
            rate=options.rate,
            seconds=options.seconds,
            steady_share=options.steady_share,
        )
        tell(f"{options.since:,} records since the snapshot: restart, reads, replay")
        self._do("leave", self._large, records=options.since)
        found["since"] = self._do(
            "open", self._large, reads=options.reads, commands=options.commands
        )
        found["replay"] = self._do("replay", self._large)
        tell(f"a manifest pinned while {options.waiting:,} instances wait")
        found["pin"] = self._do("pin", {"path": self._folder / "waiting"}, waiting=options.waiting)
        tell("commands that make it smaller")
        found["commands"] = housekeeping(path, timeout_s=self._timeout_s)
        return found

    def _make(self, world: Json) -> Json:
        tell(f"a world of {world['cells']:,} cells")
        return self._do("make", world, every=self._options.every)

    def _round(self, number: int) -> Json:
        """Both worlds by turns, so that what else the machine does meets both."""
        tell(f"random cells, round {number + 1}")
        more = {"seconds": self._options.seconds, "seed": number}
        return {
            "small": self._do("step", self._small, **more),
            "large": self._do("step", self._large, **more),
        }

    def _do(self, what: str, world: Json, **more: Any) -> Json:
        given = {"do": what, **world, **more}
        found: Json = run_child(
            given, self._folder, timeout_s=self._timeout_s, module="benchmarks.rest.child"
        )
        return found

    @property
    def _timeout_s(self) -> float:
        return CHILD_S + self._options.cells / SLOWEST_RATE


BENCHMARK: Final = Benchmark(
    name="rest",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="small worlds, half a minute",
    helps={
        "cells": "of the large world ({:,})",
        "small": "of the small one ({:,})",
        "rounds": "of random steps ({})",
        "seconds": "of one load ({:g})",
    },
    measure=lambda options, folder: Rest(options, folder).run(),
    tables=rest_tables,
    path=report.REST,
    has_kernels=True,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
