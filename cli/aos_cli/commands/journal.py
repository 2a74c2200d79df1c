"""``aos journal prune``: move records before a snapshot into an archive (spec/cli.md, C-28a)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.host.retention.pruning import PrunedRecords, prune_world
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress


def prune(
    *,
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="SNAPSHOT",
            help="Snapshot whose earlier records are moved: its record number, the hash of its "
            "document, or newest.",
        ),
    ],
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            help="Write the records to this file (default: a new file in DIR/archives).",
        ),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("pruning") as advance:
        done = prune_world(world, before=before, archive=archive, progress=advance)
    if json:
        print_json(_document(done))
    else:
        _show(done)
    if done.not_compacted is not None:
        note(f"the store's file could not be compacted: {done.not_compacted}", style="yellow")


def _document(done: PrunedRecords) -> dict[str, object]:
    found = dataclasses.asdict(done)
    problem = found.pop("not_compacted")
    return {
        **found,
        "world": hash_text(done.world),
        "archive": str(done.archive),
        "compacted": problem is None,
    }


def _show(done: PrunedRecords) -> None:
    what = "finished an interrupted prune: " if done.was_begun else ""
    line(f"{what}pruned to record {done.last:,}", style="bold")
    line(f"  records {done.first:,} to {done.last:,} are in {done.archive}")
    line(
        f"  {count(done.frames, 'frame')} removed; the store has {done.bytes_after:,} bytes, "
        f"and had {done.bytes_before:,}"
    )
    line(f"next: aos verify --archive {shell_word(done.archive)}")
