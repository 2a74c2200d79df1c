"""Read one world's journal in a separate process, so that its memory is measured alone.

    python -m benchmarks.audit.child '{"do": "fold", "path": …, "out": FILE}'

``do``: make (a world with so many items of three effects), fold (the whole journal into a state),
export (an event log, in ``form``), replay, shadow (under the same manifest, whose modules have a
custom section more), frames (add so many frames of one event each), checkpoint, proofs. It writes
the results to ``out`` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.state.fold import fold_frame
from aos.host.apply.manifest_files import load_manifest_files, read_manifest_files
from aos.host.door.writer import open_writer
from aos.host.executors.carrying import carry_out
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.world.snapshots import Every
from aos.manifest.load import load
from aos.prove.event_log.event_log import OCEL, write_event_log
from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.journal_source import source_of_store
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import ShadowRequest, chosen_range, run_shadow
from aos.read.views.proposal_view import read_report
from aos.store.lmdb_store import LmdbStore
from aos.store.stored_world import empty_state
from benchmarks.audit.frames import checkpoint, make_frames, proofs
from benchmarks.memory import peaks, rss_anon_mib
from benchmarks.rest.feed import feed, settle
from benchmarks.workloads import cell_name, load_of
from benchmarks.world import World

LOAD: Final = load_of("steps")
NEVER: Final = Every(records=0)
SECTION: Final = b"\x00\x06\x04note!"
"""A custom section: another hash, and nothing that runs."""

Json = dict[str, Any]


def run(given: Json) -> Json:
    path = Path(given["path"])
    match given["do"]:
        case "make":
            return asyncio.run(_make(path, given["items"]))
        case "fold":
            return _measured(path, _fold)
        case "export":
            target = path.parent / f"log.{given['form']}"
            return _measured(path, lambda store: _export(store, target))
        case "replay":
            return _measured(path, _replay)
        case "shadow":
            return _measured(path, _shadow)
        case "frames":
            return make_frames(path, given["frames"])
        case "checkpoint":
            return checkpoint(path)
        case "proofs":
            return proofs(path)
        case other:
            raise ValueError(f"expected something that this program does, found {other!r}")


async def _make(path: Path, items: int) -> Json:
    init_world(path)
    with open_writer(path) as writer:
        applied = writer.apply(load_manifest_files(LOAD.manifest))
        assert isinstance(applied.answer, Admitted), applied.answer
    async with World(path, LOAD, every=NEVER) as world:
        await feed(world, (LOAD.event(item, cell_name(item), "fresh") for item in range(items)))
        await settle(world)
        return {"items": items, "store_bytes": world.store_bytes()}


def _measured(path: Path, work: Callable[[LmdbStore], Json]) -> Json:
    """The records a second of ``work`` in CPU time, which other processes do not change, and the
    memory that it added at its peak."""
    with open_folder(path).open_store(readonly=True) as store:
        head = store.head()
        assert head is not None, "the world was made"
        before_mib = rss_anon_mib()
        began, cpu_began = time.perf_counter(), time.process_time()
        with peaks() as peak:
            found = work(store)
        cpu_s, wall_s = time.process_time() - cpu_began, time.perf_counter() - began
        return {
            "records": head.seq,
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "rate": head.seq / cpu_s,
            "added_mib": peak.own - before_mib,
            **found,
        }


def _fold(store: LmdbStore) -> Json:
    state = empty_state(store)
    for frame in store.frames():
        fold_frame(state, frame, store.blob)
    return {"cells": len(state.cells)}


def _export(store: LmdbStore, target: Path) -> Json:
    try:
        made = write_event_log(store, target, format=OCEL, force=True)
        return {"events": made.events, "objects": made.objects, "bytes": made.size}
    finally:
        target.unlink(missing_ok=True)


def _replay(store: LmdbStore) -> Json:
    return {"steps": replay_store(store).steps}


def _shadow(store: LmdbStore) -> Json:
    files, problems = read_manifest_files(LOAD.manifest)
    assert not problems, problems
    loaded = load(
        {name: data + SECTION if name.endswith(".wasm") else data for name, data in files.items()}
    )
    source = source_of_store(store)
    request = ShadowRequest(
        proposed=Proposed(effective=loaded.effective),
        range=chosen_range(source, is_all=True),
    )
    report = read_report(run_shadow(source, request, loaded.modules, carry_out=carry_out))
    assert report["same"], report["by_class"]
    return {"steps": report["steps"]["compared"]}


def main() -> None:
    given = json.loads(sys.argv[1])
    Path(given["out"]).write_text(json.dumps(run(given)))


if __name__ == "__main__":
    main()
