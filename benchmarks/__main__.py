"""Measure the kernel: ``python -m benchmarks``, or ``make bench``.

A whole run writes ``benchmarks/results/bench.json``, ``benchmarks/results/rates.svg`` and
``benchmarks/RESULTS.md``. A quick one, or one of some workloads, prints its tables and writes
nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from aos.host.transfer.adopting import adopt_world
from benchmarks import report
from benchmarks.benchmark import tell
from benchmarks.cores import CORE_WORDS, TURNS, by_turns, core_environment
from benchmarks.machine import machine
from benchmarks.plan import IN_FLIGHT, JOURNAL_ITEMS, SIZES, WORKLOADS, Point, Workload, points
from benchmarks.processes import run_child, stoppable
from benchmarks.scratch import DEFAULT, scratch

SECONDS: Final = 2.0
WARM_S: Final = 0.4
RESTART_EVENTS: Final = 1_000_000
RESTART_CELLS: Final = 10_000
QUICK_SECONDS: Final = 0.5
QUICK_ITEMS: Final = 300
CHILD_S: Final = 120.0
"""Time that a process may take in addition to the measured time, in seconds."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The part of the plan to run, and the kernels that alternate in it. ``restart_events``: events
    that a restart reads, or 0."""

    workloads: tuple[Workload, ...] = WORKLOADS
    sizes: tuple[int, ...] | None = None
    in_flight: tuple[int, ...] = IN_FLIGHT
    seconds: float = SECONDS
    warm_s: float = WARM_S
    journal_items: int | None = None
    restart_events: int = 0
    cores: tuple[str, ...] = TURNS

    @property
    def is_whole(self) -> bool:
        """Whether it is what ``make bench`` runs, or more."""
        return self == Options(restart_events=self.restart_events)


class Bench:
    """One run, in ``folder``."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._turns = by_turns(options.cores)

    def run(self) -> Json:
        began = time.monotonic()
        found: Json = {
            "kind": "bench",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "options": asdict(self._options),
            "machine": machine(self._folder),
            "worlds": [],
            "journals": [],
            "restarts": [],
        }
        for workload in self._options.workloads:
            sizes = self._options.sizes or SIZES[workload]
            for size in sizes:
                found["worlds"] += self._world(workload, size, is_smallest=size == min(sizes))
            found["journals"] += [self._journal(workload, core) for core in next(self._turns)]
        if self._options.restart_events:
            found["restarts"] = self._restarts(self._options.restart_events)
        found["seconds"] = round(time.monotonic() - began)
        return found

    def _world(self, workload: Workload, size: int, *, is_smallest: bool) -> list[Json]:
        """A world with so many cells: made, and for each kernel copied, opened and measured at its
        points. So each kernel begins with the same cells."""
        tell(f"{workload}: a world of {size:,} cells")
        options = self._options
        found = points(
            workload,
            is_smallest=is_smallest,
            in_flight=options.in_flight,
            seconds=options.seconds,
            warm_s=options.warm_s,
        )
        world: Json = {"workload": workload, "path": self._folder / "world", "size": size}
        made = self._child({**world, "do": "make"}, CHILD_S + size / 100)
        measured = []
        for core in next(self._turns):
            tell(f"  {CORE_WORDS[core]}")
            copy = self._copy(world["path"])
            spec = {**world, "path": copy, "do": "measure"}
            figures = self._child(
                {**spec, "points": [asdict(point) for point in found]},
                CHILD_S + size / 100 + sum(5 * each.seconds + 5 for each in found),
                core,
            )
            shutil.rmtree(copy)
            measured.append(
                {"workload": workload, "size": size, "core": core, "make": made, **figures}
            )
        shutil.rmtree(world["path"])
        return measured

    def _copy(self, path: Path) -> Path:
        """Copy a world, which runs in its new place."""
        copy = self._folder / "copy"
        shutil.copytree(path, copy)
        adopt_world(copy)
        return copy

    def _journal(self, workload: Workload, core: str) -> Json:
        """One journal: written live, read by a restart, executed again by a replay, all of it on
        this kernel."""
        items = self._options.journal_items or JOURNAL_ITEMS[workload]
        words = CORE_WORDS[core]
        tell(f"{workload}: a journal of {items:,} items, restart and replay, {words}")
        world: Json = {"workload": workload, "path": self._folder / "journal", "size": 1_000}
        self._child({**world, "size": 0, "do": "make"}, CHILD_S)
        point = Point(in_flight=256, items=items, warm_s=0)
        live = self._child({**world, "do": "measure", "points": [asdict(point)]}, 2 * CHILD_S, core)
        start = self._child({**world, "do": "measure"}, CHILD_S, core)["start"]
        replay = self._child({**world, "do": "replay"}, 5 * CHILD_S, core)
        shutil.rmtree(world["path"])
        return {
            "workload": workload,
            "core": core,
            "items": items,
            "live": live["points"][0],
            "start": start,
            "replay": replay,
        }

    def _restarts(self, events: int) -> list[Json]:
        """One journal, read by a restart on each kernel."""
        tell(f"restart after {events:,} events")
        world: Json = {
            "workload": "counter",
            "path": self._folder / "restart",
            "size": RESTART_CELLS,
        }
        self._child({**world, "size": 0, "do": "make"}, CHILD_S)
        point = Point(in_flight=3, cells="stream", items=events, warm_s=0)
        live = self._child(
            {**world, "do": "measure", "points": [asdict(point)]}, CHILD_S + events / 500
        )
        restarts = []
        for core in next(self._turns):
            start = self._child({**world, "do": "measure"}, CHILD_S + events / 500, core)["start"]
            restarts.append(
                {"events": events, "core": core, "live": live["points"][0], "start": start}
            )
        shutil.rmtree(world["path"])
        return restarts

    def _child(self, spec: Json, timeout_s: float, core: str | None = None) -> Any:
        """One process on this kernel, by default on the first of the run."""
        environment = core_environment(core or self._options.cores[0])
        return run_child(spec, self._folder, timeout_s=timeout_s, env=environment)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def read_options(arguments: Sequence[str]) -> tuple[Options, Path, Path | None]:
    """Options of the run, the folder to measure in, and the file to write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="smallest worlds, half a second each")
    parser.add_argument(
        "--scenario", action="append", choices=WORKLOADS, help="only this one (may be repeated)"
    )
    parser.add_argument("--sizes", type=_numbers, help="cells of the worlds, such as 1000,10000")
    parser.add_argument("--in-flight", type=_numbers, help="such as 1,64")
    parser.add_argument("--seconds", type=float, help=f"of one point ({SECONDS:g})")
    parser.add_argument(
        "--core", action="append", choices=TURNS, help="only this kernel (both, by turns)"
    )
    parser.add_argument("--items", type=int, help="of the journal that is replayed")
    parser.add_argument(
        "--restart-events",
        type=int,
        default=0,
        help=f"also a restart after so many events, such as {RESTART_EVENTS} (takes minutes)",
    )
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(arguments)
    is_quick = given.quick
    options = Options(
        workloads=tuple(given.scenario or WORKLOADS),
        sizes=given.sizes or ((1_000,) if is_quick else None),
        in_flight=given.in_flight or IN_FLIGHT,
        seconds=given.seconds or (QUICK_SECONDS if is_quick else SECONDS),
        warm_s=0.2 if is_quick else WARM_S,
        journal_items=given.items or (QUICK_ITEMS if is_quick else None),
        restart_events=given.restart_events,
        cores=tuple(given.core or TURNS),
    )
    return options, given.dir, given.out


def main(arguments: Sequence[str] | None = None) -> int:
    options, below, out = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable(), scratch(below) as folder:
            found = Bench(options, folder).run()
    except KeyboardInterrupt:
        return 130
    except AosError as problem:
        tell(f"benchmarks: {problem}")
        return 1
    report.keep(found, report.bench_tables, path=report.BENCH, is_whole=options.is_whole, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
