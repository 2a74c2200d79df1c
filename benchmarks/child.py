"""Run one world in a separate process, so that its memory and threads are measured alone.

    python -m benchmarks.child '{"do": "measure", "path": …, "out": FILE}'

``do``: make (a world with so many cells), snapshot, measure (open it, run points), replay. It
writes the results to ``out`` as JSON, and a line for each point to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import EventInput
from aos.fastcore.core_kind import CoreKind, core_of_environment
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.world.engine import EngineStats
from aos.prove.replay.replay_store import replay_store
from benchmarks import floor
from benchmarks.figures import (
    NS_PER_MS,
    NS_PER_S,
    Samples,
    Summary,
    as_fields,
    measured,
    median,
    whole,
)
from benchmarks.load import Callers, busy_thread
from benchmarks.memory import rss_anon_mib
from benchmarks.plan import BATCH, Point, Workload
from benchmarks.watch import Watch
from benchmarks.workloads import Load, cell_name, load_of, scattered
from benchmarks.world import World

FIRST_ITEM: Final = 1_000_000_000
"""Items of points count from here, those that made the cells from 0."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to do. ``size`` is how many cells there are, or shall be."""

    do: str
    path: Path
    workload: Workload
    size: int = 0
    points: tuple[Point, ...] = ()

    @classmethod
    def read(cls, given: Json) -> Spec:
        points = tuple(Point(**each) for each in given.get("points", ()))
        return cls(
            do=given["do"],
            path=Path(given["path"]),
            workload=given["workload"],
            size=given.get("size", 0),
            points=points,
        )


def main() -> None:
    given = json.loads(sys.argv[1])
    found = run(Spec.read(given))
    Path(given["out"]).write_text(json.dumps(found))


def run(spec: Spec) -> Json:
    match spec.do:
        case "make":
            return _make(spec)
        case "snapshot":
            return _snapshot(spec)
        case "measure":
            return asyncio.run(_measure(spec))
        case "replay":
            return _replay(spec)
        case _:
            raise ValueError(f"expected make, snapshot, measure or replay, found {spec.do!r}")


def _make(spec: Spec) -> Json:
    load = load_of(spec.workload)
    init_world(spec.path)
    with open_writer(spec.path) as writer:
        applied = writer.apply(load_manifest_files(load.manifest))
        assert isinstance(applied.answer, Admitted), applied.answer
    return asyncio.run(_fill(spec, load)) if spec.size else {}


async def _fill(spec: Spec, load: Load) -> Json:
    """Put the cells into the world, as a stream of batches."""
    point = Point(in_flight=3, cells="stream", items=spec.size, warm_s=0)
    async with World(spec.path, load) as world:

        def event(item: int) -> EventInput:
            return load.first(item, cell_name(item))

        began_ns = time.perf_counter_ns()
        samples = await Callers(world.watch, event, itertools.count(), point).run()
        ended_ns = max(at for _, at in samples.finished)
        return {"cells": spec.size, "seconds": (ended_ns - began_ns) / NS_PER_S}


def _snapshot(spec: Spec) -> Json:
    began_ns = time.perf_counter_ns()
    with open_writer(spec.path) as writer:
        made = writer.snapshot()
    seconds = (time.perf_counter_ns() - began_ns) / NS_PER_S
    return {"seconds": seconds, "blobs": made.blobs, "bytes": made.bytes}


async def _measure(spec: Spec) -> Json:
    load = load_of(spec.workload)
    async with World(spec.path, load) as world:
        found: Json = {"start": world.start(), "points": []}
        numbers = itertools.count(FIRST_ITEM)
        for point in spec.points:
            measured = await _Measuring(world.watch, load, spec, point).run(numbers)
            found["points"].append(measured)
            _tell(spec, measured)
        found["end"] = {"rss_anon_mib": rss_anon_mib(), "store_bytes": world.store_bytes()}
        return found


def _replay(spec: Spec) -> Json:
    """Replay the whole journal with the sandbox. Raises Divergence if a record differs."""
    with open_folder(spec.path).open_store(readonly=True) as store:
        report = replay_store(store, core=core_of_environment() or CoreKind.PYTHON)
    return {
        "seconds": report.seconds,
        "records": report.records,
        "events": report.events,
        "steps": report.steps,
        "receipts": report.receipts,
    }


class _Measuring:
    """One point in a world that is open."""

    def __init__(self, watch: Watch, load: Load, spec: Spec, point: Point) -> None:
        self._watch = watch
        self._load = load
        self._spec = spec
        self._point = point

    async def run(self, numbers: Iterator[int]) -> Json:
        watch, point = self._watch, self._point
        before, groups_before = self._stats(), len(watch.groups)
        watch.take_calls()
        with busy_thread() if point.is_busy else contextlib.nullcontext():
            began_ns, cpu_began = time.perf_counter_ns(), time.process_time()
            samples = await Callers(watch, self._event, numbers, point).run()
            wall_s = (time.perf_counter_ns() - began_ns) / NS_PER_S
            cpu_s = time.process_time() - cpu_began
            rss_mib = rss_anon_mib()
            after = self._stats()
            journal = _journal(watch, before.figures.seq, after.figures.seq, groups_before)
            steps = after.figures.steps - before.figures.steps
            least = floor.measure(
                calls=watch.take_calls(),
                steps=steps,
                groups=journal.groups,
                read=watch.store.blob,
                folder=self._spec.path.parent,
            )
        items = len(samples.sent)
        return {
            **asdict(point),
            **as_fields(_figures(samples, point, began_ns)),
            "all_items": items,
            "wall_s": wall_s,
            "cpu_share": cpu_s / wall_s,
            "rss_anon_mib": rss_mib,
            "steps": steps,
            "receipts": after.figures.receipts - before.figures.receipts,
            "records": after.figures.seq - before.figures.seq,
            "frames": journal.frames,
            "commits": len(journal.groups),
            "commit_ms": journal.commit_ms,
            "bytes_per_item": journal.bytes / items,
            "bytes_per_record": journal.bytes / (after.figures.seq - before.figures.seq),
            "floor": {
                "step_us": least.step_us,
                "commit_ms": least.commit_ms,
                "rate": items / least.seconds,
                "item_ms": least.seconds / items * 1e3,
            },
        }

    def _event(self, item: int) -> EventInput:
        return self._load.event(
            item, _cell_of(item, self._point, self._spec.size), self._point.cells
        )

    def _stats(self) -> EngineStats:
        return self._watch.engine.stats()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Journal:
    """The data that a point wrote. ``bytes``: of frames and of blobs outside of them."""

    frames: int
    bytes: int
    groups: Sequence[floor.Bytes]
    commit_ms: float


def _journal(watch: Watch, after_seq: int, last_seq: int, first_group: int) -> _Journal:
    frames = list(watch.store.frames(after_seq + 1, last_seq))
    rest = iter(frames)
    groups = []
    found = [each for each in watch.groups[first_group:] if each.last_seq <= last_seq]
    for group in found:
        held = []
        for frame in rest:
            held.append(frame.to_bytes())
            if frame.header.last >= group.last_seq:
                break
        groups.append(floor.Bytes(tuple(held), group.blobs))
    return _Journal(
        frames=len(frames),
        bytes=sum(sum(map(len, each.frames)) + sum(each.blobs) for each in groups),
        groups=groups,
        commit_ms=median([each.ns for each in found]) / NS_PER_MS,
    )


def _cell_of(item: int, point: Point, size: int) -> str:
    match point.cells:
        case "hot" | "line":
            # A cell that grows begins empty at each point, however many items came before.
            return f"{point.cells}-{point.in_flight}"
        case "fresh":
            return f"new-{item}"
        case _:
            return cell_name(scattered(item, size))


def _figures(samples: Samples, point: Point, began_ns: int) -> Summary:
    if point.items is not None:
        return whole(samples, began_ns)
    callers = point.in_flight * (BATCH if point.cells == "stream" else 1)
    return measured(
        samples, start_ns=began_ns, warm_s=point.warm_s, seconds=point.seconds, callers=callers
    )


def _tell(spec: Spec, found: Json) -> None:
    busy = ", with a busy thread" if found["is_busy"] else ""
    finish = found["finish_ms"] or {"p50": 0.0, "p99": 0.0}
    print(
        f"  {spec.workload}, {spec.size:,} cells, {found['cells']}, {found['in_flight']} in flight"
        f"{busy}: {found['rate']:,.0f}/s, p50 {finish['p50']:.2f} ms, p99 {finish['p99']:.2f} ms; "
        f"floor {found['floor']['rate']:,.0f}/s",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    main()
