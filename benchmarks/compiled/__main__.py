"""The kernel interpreted and compiled, by turns: ``python -m benchmarks.compiled``.

A whole run writes ``benchmarks/results/compiled.json`` and ``benchmarks/RESULTS.md``; a quick one
prints its tables. It needs ``make compiled`` before it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from benchmarks import report
from benchmarks.__main__ import Bench
from benchmarks.__main__ import Options as BenchOptions
from benchmarks.benchmark import Benchmark, tell
from benchmarks.compiled.tables import COMPILED, INTERPRETED, compiled_tables
from benchmarks.plan import Workload
from benchmarks.processes import compiled_env, wait_for

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


def measure(options: Options, folder: Path) -> Json:
    """Raises: Unavailable: There is no compiled kernel, or a process failed."""
    forms: dict[str, Mapping[str, str]] = {INTERPRETED: {}, COMPILED: compiled_env()}
    try:
        command = [sys.executable, "-c", TRIAL]
        wait_for(command, folder=folder, timeout_s=TRIAL_S, env=forms[COMPILED])
    except Unavailable:
        raise Unavailable("the compiled kernel is of another Python (make compiled)") from None
    turns: list[Json] = []
    for number in range(options.rounds):
        for form, env in forms.items():
            tell(f"round {number + 1}, {form}")
            for workload, items in options.items.items():
                plan = BenchOptions(
                    workloads=(workload,),
                    sizes=(options.size,),
                    in_flight=(1, 64),
                    seconds=options.seconds,
                    journal_items=items,
                )
                turn = Bench(plan, folder, env).run()
                turns.append({"form": form, "round": number, **turn})
    return {"turns": turns}


BENCHMARK: Final = Benchmark(
    name="compiled",
    about=__doc__,
    whole=WHOLE,
    quick=QUICK,
    quick_help="small worlds, half a minute",
    helps={"rounds": "of both ({})"},
    measure=measure,
    tables=compiled_tables,
    path=report.FORMS,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
