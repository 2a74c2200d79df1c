"""Measure ``aos apply --mode pin`` on a running world whose instances all wait for an effect."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import PIN
from aos.host.apply.apply import Applied
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from benchmarks.rest.feed import feed
from benchmarks.workloads import cell_name, load_of
from benchmarks.world import World

LOAD: Final = replace(load_of("steps"), executors=lambda _read, _world: ())
"""Without its executor, so that every instance waits."""

Json = dict[str, Any]


async def pin(path: Path, *, waiting: int) -> Json:
    """Make a world with so many waiting instances in ``path``, and pin another manifest.

    ``cpu_s`` is the time of the process that runs the world, which here is also the one that
    applies: no figure of it is too low. ``path`` is removed.
    """
    changed = _changed(path.with_name(f"{path.name}-manifest"))
    init_world(path)
    _apply(path, LOAD.manifest, mode=None)
    async with World(path, LOAD) as world:
        await feed(world, (LOAD.event(each, cell_name(each), "many") for each in range(waiting)))
        began, cpu_began = time.perf_counter(), time.process_time()
        applied = await asyncio.to_thread(_apply, path, changed, mode=PIN)
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    assert isinstance(applied.answer, Admitted), applied.answer
    shutil.rmtree(path)
    shutil.rmtree(changed.parent)
    return {"waiting": waiting, "seconds": seconds, "cpu_s": cpu_s}


def _apply(path: Path, manifest: Path, *, mode: str | None) -> Applied:
    loaded = load_manifest_files(manifest)
    with open_writer(path) as writer:
        return writer.apply(loaded) if mode is None else writer.apply(loaded, mode=mode)


def _changed(folder: Path) -> Path:
    """The same manifest with another limit, which changes every workflow's version."""
    nodes = json.loads(LOAD.manifest.read_text())
    for node in nodes:
        if node["$kind"] == "defmodule":
            artifact = node["runtime"]["artifact"]
            artifact["path"] = "bench.wasm"
            wasm = (LOAD.manifest.parent / "../../modules/bench/bench.wasm").read_bytes()
        if node["$kind"] == "defworkflow":
            node["limits"] = {"events": 7}
    folder.mkdir(parents=True)
    (folder / "bench.wasm").write_bytes(wasm)
    changed = folder / "steps.air.json"
    changed.write_text(json.dumps(nodes))
    return changed
