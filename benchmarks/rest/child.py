"""Run one world of keepers in a separate process.

    python -m benchmarks.rest.child '{"do": "step", "path": …, "cells": …, "out": FILE}'

``do``: make (the world, and its last snapshot), step (random cells), snapshot (after some cells
have changed; also the delay for concurrent senders), pin (a manifest while instances wait), leave
(records after the last snapshot), open (with concurrent reads), replay. It writes the results to
``out`` as JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import EventInput
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.world.snapshots import Every, MadeSnapshot
from aos.prove.replay.replay_store import replay_store
from benchmarks.figures import NS_PER_S, as_fields, measured
from benchmarks.load import Callers
from benchmarks.memory import Peaks, peaks, rss_anon_mib
from benchmarks.plan import Point
from benchmarks.rest import reads
from benchmarks.rest.feed import feed
from benchmarks.rest.pin import pin
from benchmarks.rest.steady import Steady
from benchmarks.workloads import cell_name, load_of, scattered
from benchmarks.world import World

LOAD: Final = load_of("keeper")
NEVER: Final = Every(records=0)
IN_FLIGHT: Final = 64
WARM_S: Final = 0.5
SEED: Final = 1
FIRST_ITEM: Final = 1_000_000_000

Json = dict[str, Any]


def run(given: Json) -> Json:
    return asyncio.run(_DO[given["do"]](given))


async def _make(given: Json) -> Json:
    """The cells, each by one event, and snapshots as a world makes them by itself."""
    path, cells = Path(given["path"]), given["cells"]
    init_world(path)
    with open_writer(path) as writer:
        applied = writer.apply(load_manifest_files(LOAD.manifest))
        assert isinstance(applied.answer, Admitted), applied.answer
    every = Every(records=given["every"])
    async with World(path, LOAD, every=every) as world:
        with peaks() as peak:
            began_ns = time.perf_counter_ns()
            await feed(world, (LOAD.first(each, cell_name(each)) for each in range(cells)))
            seconds = (time.perf_counter_ns() - began_ns) / NS_PER_S
            last = await _snapshot(path)
        made = list(world.watch.store.snapshots())
        return {
            "cells": cells,
            "seconds": seconds,
            "snapshots": len(made),
            "last_snapshot_s": last.took_ns / NS_PER_S,
            "store_bytes": world.store_bytes(),
            **_memory(peak),
        }


async def _step(given: Json) -> Json:
    """Random cells, one step each, so many in flight."""
    point = Point(in_flight=IN_FLIGHT, seconds=given["seconds"], warm_s=WARM_S)
    chance = random.Random(given["seed"])
    async with World(Path(given["path"]), LOAD, every=NEVER) as world:
        start = world.start()

        def event(item: int) -> EventInput:
            return LOAD.event(item, cell_name(chance.randrange(given["cells"])), "many")

        with peaks() as peak:
            began_ns, cpu_began = time.perf_counter_ns(), time.process_time()
            samples = await Callers(world.watch, event, itertools.count(FIRST_ITEM), point).run()
            cpu_s = time.process_time() - cpu_began
        found = measured(
            samples,
            start_ns=began_ns,
            warm_s=point.warm_s,
            seconds=point.seconds,
            callers=point.in_flight,
        )
        cpu_us = cpu_s / len(samples.sent) * 1e6
        return {"start": start, **as_fields(found), "cpu_us": cpu_us, **_memory(peak)}


async def _pin(given: Json) -> Json:
    return await pin(Path(given["path"]), waiting=given["waiting"])


async def _snapshots(given: Json) -> Json:
    """Snapshots after so many cells have changed; then the pause that one makes."""
    path, cells = Path(given["path"]), given["cells"]
    found: Json = {"snapshots": []}
    async with World(path, LOAD, every=NEVER) as world:
        found["start"] = world.start()
        others = _others(cells)
        # So that each begins with what it is about alone.
        await _snapshot(path)
        for share in given["shares"]:
            found["snapshots"].append(await _after(world, path, others, round(share * cells)))
        steady = Steady(world, _random_events(cells), rate=given["rate"])
        quiet = await steady.run(seconds=given["seconds"])
        await feed(world, itertools.islice(others, round(given["steady_share"] * cells)))
        making = asyncio.create_task(_snapshot(path))
        beside = await steady.run(until=making)
        made = await making
        found["steady"] = {
            "rate": given["rate"],
            "without": quiet,
            "beside": beside,
            "snapshot_s": made.took_ns / NS_PER_S,
        }
    return found


async def _after(world: World, path: Path, others: Iterator[EventInput], changed: int) -> Json:
    records = _records(world)
    await feed(world, itertools.islice(others, changed))
    before_mib = rss_anon_mib()
    with peaks() as peak:
        made = await _snapshot(path)
    return {
        "changed": changed,
        "records": _records(world) - records,
        "seconds": made.took_ns / NS_PER_S,
        "blobs": made.blobs,
        "bytes": made.bytes,
        "before_mib": before_mib,
        "after_mib": rss_anon_mib(),
        **_memory(peak),
    }


async def _leave(given: Json) -> Json:
    """So many records since the last snapshot."""
    async with World(Path(given["path"]), LOAD, every=NEVER) as world:
        mark = world.watch.engine.stats().figures.snapshot
        assert mark is not None
        missing = mark.at + given["records"] - _records(world)
        # An event and its step are two records.
        events = itertools.islice(_random_events(given["cells"]), max(missing, 0) // 2)
        await feed(world, events)
        return {"records_since": _records(world) - mark.at}


async def _open(given: Json) -> Json:
    """A restart; and reads from other processes while it runs."""
    path = Path(given["path"])
    async with World(path, LOAD, every=NEVER) as world:
        found: Json = {"start": world.start()}
        mark = world.watch.engine.stats().figures.snapshot
        found["records_since"] = 0 if mark is None else found["start"]["records"] - mark.at
        if given["reads"]:
            found["reads"] = await asyncio.to_thread(
                reads.beside, path, cells=given["cells"], count=given["reads"]
            )
            found["commands"] = await asyncio.to_thread(
                reads.commands, path, cells=given["cells"], count=given["commands"]
            )
        return found


async def _replay(given: Json) -> Json:
    """The journal behind the newest snapshot once more, with the sandbox."""
    with open_folder(Path(given["path"])).open_store(readonly=True) as store, peaks() as peak:
        report = replay_store(store, start=store.snapshot_before())
    return {
        "seconds": report.seconds,
        "records": report.records,
        "steps": report.steps,
        "rss_anon_mib": peak.own,
    }


_DO: Final = {
    "make": _make,
    "step": _step,
    "snapshots": _snapshots,
    "pin": _pin,
    "leave": _leave,
    "open": _open,
    "replay": _replay,
}


async def _snapshot(path: Path) -> MadeSnapshot:
    """As ``aos snapshot`` has it made."""

    def ask() -> MadeSnapshot:
        with open_writer(path) as writer:
            return writer.snapshot()

    return await asyncio.to_thread(ask)


def _records(world: World) -> int:
    return world.watch.engine.stats().figures.seq


def _others(cells: int) -> Iterator[EventInput]:
    """Events for one cell after another, none twice before all had one."""
    for item in itertools.count(2 * FIRST_ITEM):
        yield LOAD.event(item, cell_name(scattered(item, cells)), "many")


def _random_events(cells: int) -> Iterator[EventInput]:
    chance = random.Random(SEED)
    for item in itertools.count(3 * FIRST_ITEM):
        yield LOAD.event(item, cell_name(chance.randrange(cells)), "many")


def _memory(peak: Peaks) -> Json:
    return {"own_mib": peak.own, "snapshot_mib": peak.child}


def main() -> None:
    given = json.loads(sys.argv[1])
    Path(given["out"]).write_text(json.dumps(run(given)))


if __name__ == "__main__":
    main()
