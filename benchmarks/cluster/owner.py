"""The owner of a world, or the only process of an embedded one, under load.

    python -m benchmarks.cluster.owner '{"path": …, "points": […], "processes": FILE, "out": FILE}'

It opens the world, waits for the file ``processes``, runs the points, and writes their figures to
``out``. The file has the other processes of the world by their part: ``{"servers": [pid], …}``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aos.core.journal.inputs import EventInput
from benchmarks.child import FIRST_ITEM
from benchmarks.cluster.processor import processor_s
from benchmarks.figures import NS_PER_S, as_fields, measured
from benchmarks.load import Callers
from benchmarks.plan import Point
from benchmarks.workloads import load_of
from benchmarks.world import World

PAUSE_S: Final = 0.02

Json = dict[str, Any]


async def measure(path: Path, points: list[Point], processes: Path) -> list[Json]:
    """Run three effects per item at each point."""
    load = load_of("steps")
    async with World(path, load) as world:
        pids = await asyncio.to_thread(_read_when_there, processes)
        pids["owner"] = [os.getpid()]
        numbers = itertools.count(FIRST_ITEM)
        return [await _point(world, point, numbers, pids) for point in points]


def _read_when_there(processes: Path) -> dict[str, list[int]]:
    while not processes.exists():
        time.sleep(PAUSE_S)
    pids: dict[str, list[int]] = json.loads(processes.read_text())
    return pids


async def _point(
    world: World, point: Point, numbers: Iterator[int], pids: Mapping[str, list[int]]
) -> Json:
    load = load_of("steps")

    def event(item: int) -> EventInput:
        return load.event(item, f"new-{item}", point.cells)

    before = _processor(pids)
    began_ns = time.perf_counter_ns()
    samples = await Callers(world.watch, event, numbers, point).run()
    after = _processor(pids)
    world.watch.take_calls()
    figures = measured(
        samples,
        start_ns=began_ns,
        warm_s=point.warm_s,
        seconds=point.seconds,
        callers=point.in_flight,
    )
    first_ns = began_ns + int(point.warm_s * NS_PER_S)
    return {
        **asdict(point),
        **as_fields(figures),
        "from_ns": first_ns,
        "to_ns": first_ns + int(point.seconds * NS_PER_S),
        "processor_ms": {
            part: (after[part] - before[part]) * 1e3 / len(samples.sent) for part in before
        },
    }


def _processor(pids: Mapping[str, list[int]]) -> dict[str, float]:
    return {part: processor_s(numbers) for part, numbers in pids.items()}


def main() -> None:
    spec = json.loads(sys.argv[1])
    points = [Point(**point) for point in spec["points"]]
    figures = asyncio.run(measure(Path(spec["path"]), points, Path(spec["processes"])))
    Path(spec["out"]).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
