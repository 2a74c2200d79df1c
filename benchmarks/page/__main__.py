"""Measure the page and its index: ``python -m benchmarks.page``, or ``make bench-page``.

A whole run writes ``benchmarks/results/page.json`` and ``benchmarks/RESULTS.md``. One with other
sizes prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from aos.errors import Unavailable
from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.figures import median
from benchmarks.node.__main__ import node
from benchmarks.page.child import SEED, WORKFLOW
from benchmarks.page.tables import page_tables
from benchmarks.peers import systems
from benchmarks.processes import Children, run_child
from benchmarks.workloads import cell_name

CHILD_S: Final = 120.0
SLOWEST_RATE: Final = 300
"""Events a second that even a busy machine takes."""

WARM_S: Final = 0.5
IN_FLIGHT: Final = (1, 64)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``small`` are the cells of the world that the large one is compared with; ``fold`` is the
    most records that are folded; ``running`` are the cells of the world that a node runs."""

    cells: int = 1_000_000
    small: int = 10_000
    every: int = 50_000
    requests: int = 200
    fold: int = 400_000
    commands: int = 3
    running: int = 10_000
    readers: int = 10
    rounds: int = 3
    seconds: float = 4.0


QUICK: Final = Options(
    cells=20_000, small=6_000, every=20_000, requests=10, fold=20_000, commands=1, running=10_000,
    rounds=1, seconds=1.0,
)  # fmt: skip


class PageRun:
    """One run, in ``folder``."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._cache = {"AOS_CACHE_DIR": str(folder / "cache")}

    def run(self) -> Json:
        options = self._options
        found: Json = {}
        worlds = {"small": options.small, "large": options.cells}
        for name, cells in worlds.items():
            tell(f"a world of {cells:,} cells")
            self._child(
                {"do": "make", "path": self._path(name), "cells": cells, "every": options.every},
                module="benchmarks.rest.child",
            )
        tell("its index, and a fold of the same records")
        large = self._path("large")
        found["fold"] = self._child({"do": "fold", "path": large, "records": options.fold})
        found["fill"] = self._child({"do": "fill", "path": large})
        found["pages"] = {}
        for name, cells in worlds.items():
            tell(f"pages of the {name} world")
            found["pages"][name] = self._pages(self._path(name), cells)
        tell("commands")
        found["commands"] = self._commands(large)
        tell(f"a running world with {options.readers} readers and without them")
        found["running"] = self._running()
        return found

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _child(self, given: Json, *, module: str = "benchmarks.page.child") -> Json:
        timeout_s = CHILD_S + self._options.cells / SLOWEST_RATE
        found: Json = run_child(
            given, self._folder, timeout_s=timeout_s, module=module, env=self._cache
        )
        return found

    def _pages(self, path: Path, cells: int) -> Json:
        [port] = systems.free_ports(1)
        url, log = f"http://127.0.0.1:{port}", self._folder / "page.log"
        with Children() as children:
            process = children.start(
                [
                    sys.executable, "-m", "aos_cli.entry", "page", path, "--no-token",
                    "--listen", f"127.0.0.1:{port}",
                ],
                log=log, env=self._cache, end=signal.SIGINT,
            )  # fmt: skip
            systems.until(lambda: systems.answers(f"{url}/.json"), process, log)
            self._wait_indexed(url)
            given = {"do": "ask", "url": url, "cells": cells, "requests": self._options.requests}
            return self._child(given)

    def _wait_indexed(self, url: str) -> None:
        """Wait until the page says no more that its index is not whole."""
        until_s = time.monotonic() + CHILD_S
        with httpx.Client(base_url=url, timeout=CHILD_S, trust_env=False) as client:
            [world] = client.get("/.json").json()["worlds"]
            while "The index of this world" in client.get(f"{world['address']}cells").text:
                if time.monotonic() > until_s:
                    raise Unavailable(f"the index is not whole after {CHILD_S:.0f} s")
                time.sleep(0.2)
            time.sleep(1.0)
            client.get(f"{world['address']}cells")

    def _commands(self, path: Path) -> list[Json]:
        """Whole commands, from their start to their end, with the index and without it."""
        cell = cell_name(self._options.cells * SEED % 97)
        commands = {
            "aos inspect cells": ["inspect", "cells"],
            "aos inspect cells --key-prefix": ["inspect", "cells", "--key-prefix", cell[:-2]],
            "aos trace": ["trace", WORKFLOW, cell],
        }
        found = []
        for name, words in commands.items():
            row: Json = {"command": name}
            outputs = set()
            for which, env in (("indexed_s", self._cache), ("plain_s", {"AOS_CACHE_DIR": ""})):
                times = []
                for _ in range(self._options.commands):
                    seconds, output = _timed([*words, "--json", "--world", str(path)], env)
                    times.append(seconds)
                    outputs.add(_without_ages(output))
                row[which] = median(times)
            assert len(outputs) == 1, f"{name}: not the same with the index and without it"
            found.append(row)
        return found

    def _running(self) -> list[Json]:
        options, found = self._options, []
        with node(self._folder / "running", "counter", cells=options.running) as place:
            url = f"http://127.0.0.1:{place.port}"
            self._wait_indexed(url)
            look = {"do": "look", "url": url, "readers": options.readers}
            for in_flight in IN_FLIGHT:
                point = {
                    "cells": "fresh", "in_flight": in_flight, "seconds": options.seconds,
                    "warm_s": WARM_S,
                }  # fmt: skip
                for number in range(options.rounds):
                    row: Json = {"in_flight": in_flight, "round": number}
                    for readers in (0, options.readers):
                        with Children() as children:
                            if readers:
                                children.start(
                                    [
                                        sys.executable, "-m", "benchmarks.page.child",
                                        json.dumps(look),
                                    ],
                                    cwd=Path(__file__).parents[2],
                                )  # fmt: skip
                                time.sleep(1.5)
                            asked = place.ask("events", wait="durable", point=point)
                        row["with" if readers else "without"] = asked["rate"]
                    tell(f"  {row}")
                    found.append(row)
        return found


def _timed(words: Sequence[str], env: Mapping[str, str]) -> tuple[float, bytes]:
    command = [sys.executable, "-m", "aos_cli.entry", *words]
    began = time.perf_counter()
    ran = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, **env}, timeout=CHILD_S
    )
    if ran.returncode:
        raise Unavailable(f"{' '.join(words)}: {ran.stderr.decode(errors='replace')[-500:]}")
    return time.perf_counter() - began, ran.stdout


def _without_ages(output: bytes) -> bytes:
    """A document without what changes with time."""
    return b"\n".join(line for line in output.splitlines() if b'"age_ns"' not in line)


BENCHMARK: Final = Benchmark(
    name="page",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="small worlds, a minute",
    measure=lambda options, folder: PageRun(options, folder).run(),
    tables=page_tables,
    path=report.PAGE,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
