"""``aos journal prune``: move records before a snapshot into an archive (spec/cli.md, C-28a)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from aos.host.retention.pruning import PrunedRecords, prune_world
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World, option
from aos_cli.output import line, note, print_json, progress


def prune(
    *,
    snapshot: Annotated[
        str,
        option(
            "SNAPSHOT",
            "Snapshot whose earlier records are moved: its record number, the hash of its "
            "document, or newest.",
            "--before",
        ),
    ],
    archive: Annotated[
        Path | None,
        option("FILE", "Write the records to this file (default: a new file in DIR/archives)."),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("pruning") as advance:
        pruning = prune_world(world, snapshot_name=snapshot, archive=archive, progress=advance)
    if json:
        print_json(_document(pruning))
    else:
        _show(pruning)
    if pruning.not_compacted is not None:
        note(f"the store's file could not be compacted: {pruning.not_compacted}", style="yellow")


def _document(pruning: PrunedRecords) -> dict[str, object]:
    fields = dataclasses.asdict(pruning)
    problem = fields.pop("not_compacted")
    return {
        **fields,
        "world": hash_text(pruning.world),
        "archive": str(pruning.archive),
        "compacted": problem is None,
    }


def _show(pruning: PrunedRecords) -> None:
    prefix = "finished an interrupted prune: " if pruning.was_begun else ""
    line(f"{prefix}pruned to record {pruning.last:,}", style="bold")
    line(f"  records {pruning.first:,} to {pruning.last:,} are in {pruning.archive}")
    line(
        f"  {count(pruning.frames, 'frame')} removed; the store has {pruning.bytes_after:,} bytes, "
        f"and had {pruning.bytes_before:,}"
    )
    line(f"next: aos verify --archive {shell_word(pruning.archive)}")
