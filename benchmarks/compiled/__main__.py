"""The kernel interpreted and compiled, by turns: ``python -m benchmarks.compiled``.

A whole run writes ``benchmarks/results/compiled.json`` and ``benchmarks/RESULTS.md``; a quick one
prints its tables. It needs ``make compiled`` before it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError, Unavailable
from benchmarks import report
from benchmarks.__main__ import Bench
from benchmarks.__main__ import Options as BenchOptions
from benchmarks.compiled.tables import COMPILED, INTERPRETED, compiled_tables
from benchmarks.machine import machine
from benchmarks.plan import Workload
from benchmarks.processes import compiled_env, stoppable, wait_for
from benchmarks.scratch import DEFAULT, scratch

Json = dict[str, Any]

TRIAL: Final = "import sys; from aos.values.compiled import IS_COMPILED; sys.exit(not IS_COMPILED)"
TRIAL_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``items`` are of the journals that are written, read by a restart and replayed."""

    rounds: int = 3
    seconds: float = 1.0
    size: int = 1_000
    items: Mapping[Workload, int]


WHOLE: Final = Options(items={"counter": 24_000, "steps": 3_000, "orders": 500})
QUICK: Final = Options(rounds=1, seconds=0.3, size=90, items={"counter": 300, "steps": 100})


def run(options: Options, folder: Path) -> Json:
    """Raises: Unavailable: There is no compiled kernel, or a process failed."""
    began = time.monotonic()
    forms: dict[str, Mapping[str, str]] = {INTERPRETED: {}, COMPILED: compiled_env()}
    try:
        command = [sys.executable, "-c", TRIAL]
        wait_for(command, folder=folder, timeout_s=TRIAL_S, env=forms[COMPILED])
    except Unavailable:
        raise Unavailable("the compiled kernel is of another Python (make compiled)") from None
    found: Json = {
        "kind": "compiled",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": asdict(options),
        "machine": machine(folder),
        "turns": [],
    }
    for number in range(options.rounds):
        for form, env in forms.items():
            print(f"round {number + 1}, {form}", file=sys.stderr, flush=True)
            for workload, items in options.items.items():
                plan = BenchOptions(
                    workloads=(workload,),
                    sizes=(options.size,),
                    in_flight=(1, 64),
                    seconds=options.seconds,
                    journal_items=items,
                )
                turn = Bench(plan, folder, env).run()
                found["turns"].append({"form": form, "round": number, **turn})
    found["seconds"] = round(time.monotonic() - began)
    return found


def read_options(arguments: Sequence[str]) -> tuple[Options, Path, Path | None]:
    """Options of the run, the folder to measure in, and the file to write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compiled", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="small worlds, half a minute")
    parser.add_argument("--rounds", type=int, help=f"of both ({WHOLE.rounds})")
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(arguments)
    base = QUICK if given.quick else WHOLE
    return replace(base, rounds=given.rounds or base.rounds), given.dir, given.out


def main(arguments: Sequence[str] | None = None) -> int:
    options, below, out = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable(), scratch(below) as folder:
            found = run(options, folder)
    except KeyboardInterrupt:
        return 130
    except AosError as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        return 1
    report.keep(found, compiled_tables, path=report.FORMS, is_whole=options == WHOLE, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
