"""A node over HTTP, and Restate's ingress, by turns: ``python -m benchmarks.node``.

A whole run writes ``benchmarks/results/node.json`` and ``benchmarks/RESULTS.md``; a quick one
prints its tables alone.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from aos.errors import AosError, Unavailable
from aos.host.door.writer import Item
from benchmarks import report
from benchmarks.aims import AOS, RESTATE
from benchmarks.benchmark import Benchmark, tell
from benchmarks.memory import rss_anon_mib
from benchmarks.node.callers import add
from benchmarks.node.serving import core_rate, served
from benchmarks.node.tables import node_tables
from benchmarks.peers import systems, tools
from benchmarks.processes import run_child, wait_for

Json = dict[str, Any]

READY_S: Final = 60.0
TURN_S: Final = 120.0
WARM_S: Final = 0.5
LOADS: Final = (("fresh", 1), ("fresh", 16), ("fresh", 64), ("fresh", 256), ("hot", 64))
WAITS: Final = ("durable", "ran")
WORKERS: Final = 64
MOST: Final = (1, 16)
STREAMS: Final = 20
QUEUES: Final = "PostgreSQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The sizes of a run. ``core_events`` are sent to the world to compare its own rate."""

    rounds: int = 3
    seconds: float = 3.0
    tasks: int = 4_000
    claims: int = 200
    core_events: int = 30_000
    cells: int = 10_000


QUICK: Final = Options(
    rounds=1, seconds=0.5, tasks=200, claims=20, core_events=2_000, cells=500
)  # fmt: skip


class Place:
    """A world with its node or without it, and what is asked of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.world = folder / "world"
        self.port = port
        self._first = 0

    def ask(self, do: str, **more: Any) -> Json:
        """Run the callers; no two requests of a world have one item."""
        self._first += 10_000_000
        spec = {"do": do, "port": self.port, "first": self._first, **more}
        found: Json = run_child(
            spec, self.folder, timeout_s=TURN_S, module="benchmarks.node.callers"
        )
        return found

    def front(self) -> int:
        """The process id of the front."""
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                is_front = b"aos.page.node_page" in each.read_bytes()
                if is_front and self._is_ours(int(each.parts[2])):
                    return int(each.parts[2])
        raise Unavailable("the node has no front")

    def _is_ours(self, pid: int) -> bool:
        found = Path(f"/proc/{pid}/fd")
        return any(str(self.world) in str(each.readlink()) for each in found.iterdir())


@contextlib.contextmanager
def node(folder: Path, workload: str, *, cells: int = 0, http: bool = True) -> Iterator[Place]:
    """A new world that a node runs, or ``aos run``."""
    folder.mkdir()
    world = folder / "world"
    run_child(
        {"do": "make", "workload": workload, "path": world, "size": cells}, folder,
        timeout_s=TURN_S,
    )  # fmt: skip
    with served(world, folder / "node.log", http=http) as port:
        yield Place(folder, port)


@contextlib.contextmanager
def restate(folder: Path) -> Iterator[Place]:
    """Restate with one partition, and a keyed handler that keeps a sum."""
    folder.mkdir()
    service = tools.NODE / "restate_service.mjs"
    shutil.copyfile(tools.SERVICES / service.name, service)
    env = {"NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"}
    with systems.restate_running(
        folder, [tools.node(), service], env, systems.PARTITIONS, ["/sum/ready/add"]
    ) as port:
        yield Place(folder, port)


def measure(options: Options, folder: Path) -> Json:
    """Measure everything; the systems take turns."""
    missing: dict[str, str] = {}
    found: Json = {
        "missing": missing,
        "events": [],
        "batches": [],
        "tasks": [],
        "claims": [],
        "core": [],
        "queues": [],
    }
    try:
        tools.node()
        tools.restate_server()
    except tools.NotInstalled as problem:
        missing[RESTATE] = str(problem)
    try:
        tools.python()
        tools.postgres()
    except tools.NotInstalled as problem:
        missing[QUEUES] = str(problem)
    for number in range(options.rounds):
        tell(f"round {number + 1} of {options.rounds}")
        _round(options, folder / f"round-{number}", found)
    tell("memory of the front")
    found["memory"] = _memory(options, folder / "memory")
    return found


def _round(options: Options, folder: Path, found: Json) -> None:
    folder.mkdir()
    points = [
        {"cells": cells, "in_flight": number, "seconds": options.seconds, "warm_s": WARM_S}
        for cells, number in LOADS
    ]
    with node(folder / "aos", "counter", cells=1) as place:
        for wait in WAITS:
            for point in points:
                measured = place.ask("events", wait=wait, point=point)
                _said(f"{AOS}, {wait}", measured)
                found["events"].append({"system": AOS, **measured})
        point = {**points[0], "in_flight": 4}
        found["batches"].append(place.ask("batches", wait="durable", point=point))
    _queues(options, folder, found)
    if RESTATE not in found["missing"]:
        try:
            with restate(folder / "restate") as place:
                for point in points:
                    measured = place.ask("calls", point=point)
                    _said(RESTATE, measured)
                    found["events"].append({"system": RESTATE, "wait": "ran", **measured})
        except (AosError, OSError) as problem:
            found["missing"][RESTATE] = str(problem)
    for most in MOST:
        with node(folder / f"tasks-{most}", "steps", cells=1) as place:
            found["tasks"].append(
                place.ask("tasks", count=options.tasks, workers=WORKERS, most=most)
            )
            tell(f"  tasks, {most} a claim: {found['tasks'][-1]['rate']:,.0f}/s")
            if most == MOST[0]:
                found["claims"].append(place.ask("claims", count=options.claims))
    for http in (True, False):
        with node(folder / f"core-{http}", "counter", cells=1, http=http) as place:
            found["core"].append({"http": http, "rate": _core(place, options, http=http)})
            tell(f"  core, front {http}: {found['core'][-1]['rate']:,.0f}/s")


def _queues(options: Options, folder: Path, found: Json) -> None:
    """The tasks in PostgreSQL: in a bare table, and in a queue of DBOS."""
    if QUEUES in found["missing"]:
        return
    try:
        with systems.postgres_running(folder) as port:
            out = folder / "queues.json"
            given = {
                "url": f"postgresql://bench@127.0.0.1:{port}/postgres", "count": options.tasks,
                "workers": WORKERS, "most": MOST, "out": str(out),
            }  # fmt: skip
            command: list[str | Path] = [
                tools.python(), tools.SERVICES / "task_queues.py", json.dumps(given),
            ]  # fmt: skip
            wait_for(command, folder=folder, timeout_s=2 * TURN_S, log=folder / "queues.log")
            found["queues"].append(json.loads(out.read_text()))
            tell(f"  {QUEUES}: {found['queues'][-1]}")
    except (AosError, OSError) as problem:
        found["missing"][QUEUES] = str(problem)


def _core(place: Place, options: Options, *, http: bool) -> float:
    """The events of a second that a world runs, with a front and open streams or without."""
    with contextlib.ExitStack() as stack:
        if http:
            for _ in range(STREAMS):
                command = [
                    "curl", "-sN", "-o", "/dev/null",
                    f"http://127.0.0.1:{place.port}/v1/journal/stream?from=1",
                ]  # fmt: skip
                process = stack.enter_context(subprocess.Popen(command))
                stack.callback(process.kill)
        items = (
            Item(schema=each["schema"], value=each["value"])
            for each in (add(number, "fresh") for number in range(options.core_events))
        )
        return core_rate(place.world, items, options.core_events)


def _memory(options: Options, folder: Path) -> Json:
    """Anonymous memory of the front: at first, and after the load."""
    with node(folder, "counter", cells=options.cells) as place:
        front = place.front()
        before = rss_anon_mib(front)
        for _ in range(2):
            point = {"cells": "hot", "in_flight": 4, "seconds": 4 * options.seconds, "warm_s": 0}
            place.ask("batches", wait="durable", point=point)
        time.sleep(1.0)
        world = httpx.get(f"http://127.0.0.1:{place.port}/v1/world", trust_env=False).json()
        return {
            "cells": options.cells,
            "before_mib": before,
            "after_mib": rss_anon_mib(front),
            "records": world["journal"]["records"],
        }


def _said(system: str, point: Json) -> None:
    p50 = (point["finish_ms"] or {}).get("p50", 0)
    tell(
        f"  {system}: {point['cells']}, {point['in_flight']} in flight: {point['rate']:,.0f}/s, "
        f"p50 {p50:.2f} ms"
    )


BENCHMARK: Final = Benchmark(
    name="node",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="short turns, a minute",
    measure=measure,
    tables=node_tables,
    path=report.NODE,
    has_kernels=True,
    keeps_partial=True,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
