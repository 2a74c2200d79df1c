"""Measure a world whose cells are at rest: ``python -m benchmarks.rest``, or ``make bench-rest``.

A whole run writes ``benchmarks/results/rest.json`` and ``benchmarks/RESULTS.md``. One with other
sizes prints its tables and writes nothing but what ``--out`` asks for.
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
from benchmarks import report
from benchmarks.machine import machine
from benchmarks.processes import run_child, stoppable
from benchmarks.rest.commands import housekeeping
from benchmarks.rest.disk import disk
from benchmarks.rest.tables import rest_tables
from benchmarks.scratch import DEFAULT, scratch

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

    @property
    def is_whole(self) -> bool:
        return self == Options()


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
        began = time.monotonic()
        options, path = self._options, Path(self._large["path"])
        found: Json = {
            "kind": "rest",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "options": asdict(options),
            "machine": machine(self._folder),
            "made": [self._make(world) for world in (self._small, self._large)],
        }
        found["disk"] = disk(path)
        found["rounds"] = [self._round(number) for number in range(options.rounds)]
        _title("snapshots after some of the cells have changed, and what they cost who sends")
        found |= self._do(
            "snapshots",
            self._large,
            shares=options.shares,
            rate=options.rate,
            seconds=options.seconds,
            steady_share=options.steady_share,
        )
        _title(f"{options.since:,} records since the snapshot: restart, reads, replay")
        self._do("leave", self._large, records=options.since)
        found["since"] = self._do(
            "open", self._large, reads=options.reads, commands=options.commands
        )
        found["replay"] = self._do("replay", self._large)
        _title(f"a manifest pinned while {options.waiting:,} instances wait")
        found["pin"] = self._do("pin", {"path": self._folder / "waiting"}, waiting=options.waiting)
        _title("commands that make it smaller")
        found["commands"] = housekeeping(path, timeout_s=self._timeout_s)
        found["seconds"] = round(time.monotonic() - began)
        return found

    def _make(self, world: Json) -> Json:
        _title(f"a world of {world['cells']:,} cells")
        return self._do("make", world, every=self._options.every)

    def _round(self, number: int) -> Json:
        """Both worlds by turns, so that what else the machine does meets both."""
        _title(f"random cells, round {number + 1}")
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


def _title(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str]) -> tuple[Options, Path, Path | None]:
    """Options of the run, the folder to measure in, and the file to write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rest", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="small worlds, half a minute")
    whole = Options()
    parser.add_argument("--cells", type=int, help=f"of the large world ({whole.cells:,})")
    parser.add_argument("--small", type=int, help=f"of the small one ({whole.small:,})")
    parser.add_argument("--rounds", type=int, help=f"of random steps ({whole.rounds})")
    parser.add_argument("--seconds", type=float, help=f"of one load ({whole.seconds:g})")
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(arguments)
    base = asdict(QUICK if given.quick else whole)
    named = {name: getattr(given, name) for name in ("cells", "small", "rounds", "seconds")}
    asked = {name: value for name, value in named.items() if value is not None}
    return Options(**{**base, **asked}), given.dir, given.out


def main(arguments: Sequence[str] | None = None) -> int:
    options, below, out = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable(), scratch(below) as folder:
            found = Rest(options, folder).run()
    except KeyboardInterrupt:
        return 130
    except AosError as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        return 1
    report.keep(found, rest_tables, path=report.REST, is_whole=options.is_whole, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
