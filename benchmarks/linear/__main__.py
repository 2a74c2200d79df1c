"""Measure linear plans and the search index: ``python -m benchmarks.linear``.

Plans on a node, on the source's tables in PostgreSQL and on DBOS, by turns; the core with an index
and without; lists by attribute next to a table. A whole run writes
``benchmarks/results/linear.json`` and ``benchmarks/RESULTS.md``; one with other numbers, or without
PostgreSQL, prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.linear.customer_world import (
    CUSTOMER_WORLD,
    CUSTOMERS,
    SETTINGS,
    change,
    item_of,
)
from benchmarks.linear.customers import row
from benchmarks.linear.module_steps import measure_module_steps, module_sizes
from benchmarks.linear.plan_world import make_world, plan_node, replayed
from benchmarks.linear.tables import linear_tables
from benchmarks.node.serving import core_rate, served
from benchmarks.peers import systems, tools
from benchmarks.processes import run_child, wait_for

TURN_S: Final = 300.0
SLOWEST_RATE: Final = 300
"""Cells a second that even a busy machine makes, indexes or copies."""

WARM_CELLS: Final = 1_000

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """In each of ``rounds``, ``workers`` carry out ``instances``, with each of ``most`` plan steps
    a claim, and DBOS ``queued``; ``paced`` start at ``pace`` a second. ``core_events`` are run with
    an index and without. ``pages`` of lists are read of a world with so many ``cells``."""

    rounds: int = 3
    instances: int = 800
    queued: int = 300
    workers: int = 64
    most: tuple[int, ...] = (1, 16)
    paced: int = 120
    pace: float = 20.0
    core_events: int = 20_000
    cells: int = 1_000_000
    pages: int = 2_000
    module_instances: int = 40


QUICK: Final = Options(
    rounds=1, instances=60, queued=30, paced=20, core_events=1_000, cells=5_000, pages=50,
    module_instances=4,
)  # fmt: skip


class LinearRun:
    """One run, below ``folder``. Without PostgreSQL, ``missing`` says why a figure is not there."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._missing: list[str] = []

    def run(self) -> Json:
        """Measure everything."""
        options = self._options
        found: Json = {
            "missing": self._missing,
            "modules": {"bytes": module_sizes()},
            "plans": [],
            "tables": [],
            "queue": [],
            "replays": [],
            "core": [],
        }
        try:
            found["versions"] = {
                **tools.package_versions(tools.python(), ("dbos", "psycopg")),
                "PostgreSQL": tools.version_of(tools.postgres().postgres, "--version"),
            }
        except tools.NotInstalled as problem:
            self._miss(str(problem))
        tell("steps of the modules")
        found["modules"]["steps"] = run_on_big_stack(
            lambda: measure_module_steps(self._folder / "modules", options.module_instances)
        )
        for number in range(options.rounds):
            tell(f"round {number + 1} of {options.rounds}")
            folder = self._new(f"round-{number}")
            self._plans(folder, found)
            self._peers(folder, found)
            self._core(folder, found, number)
        tell(f"lists of {options.cells:,} cells")
        found["lists"] = self._lists()
        return found

    def _new(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        folder.chmod(0o711)  # PostgreSQL runs as another user
        return folder

    def _miss(self, why: str) -> None:
        self._missing.append(why)
        tell(f"not measured: {why}")

    def _loads(self) -> list[Json]:
        options = self._options
        full: list[Json] = [
            {"instances": options.instances, "most": most, "pace": None} for most in options.most
        ]
        paced = {"instances": options.paced, "most": 1, "pace": options.pace}
        return [{**each, "workers": options.workers} for each in (*full, paced)]

    def _plans(self, folder: Path, found: Json) -> None:
        for number, load in enumerate(self._loads()):
            own = folder / f"plans-{number}"
            with plan_node(own) as node:
                found["plans"].append(node.run(**load))
            _say("AOS", found["plans"][-1])
        found["replays"].append(replayed(folder / "plans-0"))

    def _peers(self, folder: Path, found: Json) -> None:
        if self._missing:
            return
        options = self._options
        try:
            with systems.postgres_running(folder) as port:
                url = f"postgresql://bench@127.0.0.1:{port}/postgres"
                tables = _service(folder, "plan_tables", url=url, loads=self._loads())
                queue = _service(
                    folder, "plan_queue", url=url, instances=options.queued,
                    workers=options.workers,
                )  # fmt: skip
        except (AosError, OSError) as problem:
            self._miss(str(problem))
            return
        found["tables"] += tables
        found["queue"].append(queue)
        for each in tables:
            _say("PostgreSQL", each)
        tell(f"  DBOS: {queue['rate']:,.0f} plan steps/s")

    def _core(self, folder: Path, found: Json, number: int) -> None:
        """By turns, with an index and without."""
        for has_index in (True, False) if number % 2 else (False, True):
            own = folder / f"core-{has_index}"
            own.mkdir()
            world = own / "world"
            make_world(world, CUSTOMERS)
            if has_index:
                (world / "node.toml").write_text(SETTINGS)
            with served(world, own / "node.log"):
                self._changes(world, 0, WARM_CELLS)
                rate = self._changes(world, WARM_CELLS, self._options.core_events)
            found["core"].append({"has_index": has_index, "rate": rate})
            tell(f"  the core, index {has_index}: {rate:,.0f} events/s")

    @staticmethod
    def _changes(world: Path, first: int, count: int) -> float:
        items = (item_of(change(row(item, count))) for item in range(first, first + count))
        return core_rate(world, items, count)

    def _lists(self) -> Json:
        options, folder = self._options, self._new("lists")
        cells, world = options.cells, folder / "world"
        timeout_s = TURN_S + cells / SLOWEST_RATE
        found: Json = {
            "cells": cells,
            "made": run_child(
                {"do": "make", "path": world, "cells": cells}, folder, timeout_s=timeout_s,
                module=CUSTOMER_WORLD,
            ),
            "table": None,
        }  # fmt: skip
        (world / "node.toml").write_text(SETTINGS)
        with served(world, folder / "node.log") as port:
            found["index"] = run_child(
                {"do": "list", "port": port, "cells": cells, "pages": options.pages}, folder,
                timeout_s=timeout_s, module=CUSTOMER_WORLD,
            )  # fmt: skip
            files = (world / "node" / "index").iterdir()
            found["index"]["bytes"] = sum(each.stat().st_size for each in files)
        tell(f"  the index: {found['index']['ms']}, built in {found['index']['built_s']:.0f} s")
        if not self._missing:
            try:
                with systems.postgres_running(folder) as port:
                    found["table"] = _service(
                        folder, "cell_table", timeout_s=timeout_s,
                        url=f"postgresql://bench@127.0.0.1:{port}/postgres", cells=cells,
                        pages=options.pages,
                    )  # fmt: skip
                tell(f"  PostgreSQL: {found['table']['ms']}")
            except (AosError, OSError) as problem:
                self._miss(str(problem))
        return found


def _service(folder: Path, name: str, *, timeout_s: float = TURN_S, **given: Any) -> Any:
    """Run a program of ``peers/services`` with the interpreter of the peers.

    Raises:
        Unavailable: It failed, or took too long.
    """
    out = folder / f"{name}.json"
    words = json.dumps({**given, "out": str(out)})
    command: list[str | Path] = [tools.python(), tools.SERVICES / f"{name}.py", words]
    wait_for(command, folder=folder, timeout_s=timeout_s, log=folder / f"{name}.log")
    return json.loads(out.read_text())


def _say(system: str, found: Json) -> None:
    spread = found["ready_to_claimed_ms"]
    load = "" if found["pace"] is None else f", {found['pace']:g} instances/s"
    tell(
        f"  {system}, {found['most']} a claim{load}: {found['rate']:,.0f} plan steps/s, READY to "
        f"claimed p50 {spread['p50']:.1f}, p99 {spread['p99']:.1f} ms"
    )


BENCHMARK: Final = Benchmark(
    name="linear",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="fewer of each, about a minute",
    helps={
        "rounds": "of all systems ({})",
        "instances": "of each load ({})",
        "cells": "of the lists by attribute ({})",
    },
    measure=lambda options, folder: LinearRun(options, folder).run(),
    tables=linear_tables,
    path=report.LINEAR,
    has_kernels=True,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
