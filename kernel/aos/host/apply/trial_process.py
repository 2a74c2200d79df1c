"""The program that tries a manifest on the world of a folder (spec/host.md, H-71c;
spec/node-api.md, N-118b, N-118c).

    python -m aos.host.apply.trial_process WORLD

It reads on stdin a line of JSON, ``{"lengths": […], "report": {mode, leave_cells, show}}``, with
the lengths of the manifest's document and of each module, and then these bytes. It writes JSON on
stdout: without ``report`` the document of A-90 about flows in progress, with it the report of a dry
run (H-71b); or ``{problem}`` with a sentence.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from aos.core.journal.records import CellId
from aos.errors import AosError
from aos.host.apply.apply import left_by
from aos.host.apply.dry_run import apply_report, dry_run_of, gate_flows, ways_out
from aos.host.folder.reader import open_reader
from aos.manifest.judging import judge
from aos.manifest.load import Loaded
from aos.private_memory import keep_memory_private
from aos.read.lens.flow_lens import gate_document
from aos.read.lens.words import as_json
from aos.values.digests import content_hash


def main() -> int:
    head: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    document, *wasm = [sys.stdin.buffer.read(size) for size in head["lengths"]]
    modules = {content_hash(module): module for module in wasm}
    world, report_options = Path(sys.argv[1]), head.get("report")
    try:
        loaded = Loaded(effective=judge(document), modules=modules)
        answer = (
            _flows(world, loaded)
            if report_options is None
            else _report(world, loaded, **report_options)
        )
    except AosError as error:
        answer = {"problem": str(error)}
    json.dump(answer, sys.stdout)
    return 0


def _flows(world: Path, loaded: Loaded) -> dict[str, object]:
    effective = loaded.effective

    def key(cell: CellId) -> object:
        return as_json(effective.workflows[cell[0]].key, cell[1]) if cell[1] else None

    return gate_document(gate_flows(world, loaded), key)


def _report(
    world: Path, loaded: Loaded, *, mode: str, leave_cells: bool, show: int
) -> dict[str, object]:
    gate = gate_flows(world, loaded)
    applied = dry_run_of(world, loaded, mode=mode, leave_cells=leave_cells, show=show)
    ways = None
    if applied.blockers:
        ways = ways_out(world, loaded, applied.blockers, mode=mode, leave_cells=leave_cells)
    with open_reader(world) as reader:
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells else ()
        missing = {
            module.hash for module in loaded.effective.modules.values()
        } - loaded.modules.keys()
        stored = {
            module_hash: reader.store.blob(module_hash)
            for module_hash in missing
            if reader.store.has_blob(module_hash)
        }
    complete = replace(loaded, modules={**loaded.modules, **stored})
    return {**apply_report(applied, gate, ways, complete), "leaves": list(leaves)}


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main())
