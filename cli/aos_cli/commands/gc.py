"""``aos gc``: remove blobs that are no longer needed (spec/cli.md, C-28b)."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from aos.audit.lens.words import count
from aos.errors import BadUsage
from aos.host.retention.gc import SNAPSHOTS_KEPT, Collected, collect_world
from aos.host.retention.marking import BASE, MANIFEST, NAMED, PUT, RECORD, SNAPSHOT
from aos.values.digests import hash_text
from aos_cli.open_writing import patience
from aos_cli.options import DEFAULT_WORLD, Json, World, number
from aos_cli.output import line, print_json
from aos_cli.progress import progress

WORDS: Final = {
    MANIFEST: "manifests and modules that were ever in force",
    SNAPSHOT: "parts of the snapshots that are kept",
    RECORD: "values that records refer to",
    NAMED: "named by a field of type hash",
    PUT: "told to instances that are not over, by records that were pruned",
    BASE: "needed to rebuild other blobs, which are stored as deltas",
}


def gc(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")
    ] = False,
    keep: Annotated[
        int,
        typer.Option(
            "--keep-snapshots",
            metavar="N",
            parser=number,
            help="Number of newest snapshots to keep.",
        ),
    ] = SNAPSHOTS_KEPT,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if keep < 1:
        raise BadUsage(f"--keep-snapshots: expected 1 or more, found {keep}")
    with progress("looking for what is needed") as advance:
        found = collect_world(
            world, keep=keep, is_dry=dry_run, patience=patience(), progress=advance
        )
    if json:
        print_json(_document(found))
    else:
        _show(found)


def _document(found: Collected) -> dict[str, object]:
    return {
        "world": hash_text(found.world),
        "seq": found.seq,
        "dry_run": found.is_dry,
        "gone": {"blobs": found.gone.blobs, "bytes": found.gone.bytes},
        "spared": found.spared,
        "kept": {
            why: {"blobs": tally.blobs, "bytes": tally.bytes} for why, tally in found.kept.items()
        },
        "snapshots_kept": list(found.snapshots_kept),
        "snapshots_gone": list(found.snapshots_gone),
        "puts_gone": found.puts_gone,
        "compacted": found.is_compacted is True,
    }


def _show(found: Collected) -> None:
    what = "would go" if found.is_dry else "taken away"
    line(f"{count(found.gone.blobs, 'blob')} of {found.gone.bytes:,} bytes {what}", style="bold")
    if found.spared:
        line(f"  {count(found.spared, 'blob')} of these came again meanwhile and stayed")
    if found.snapshots_gone:
        seqs = ", ".join(f"{seq:,}" for seq in found.snapshots_gone)
        line(f"  {count(len(found.snapshots_gone), 'snapshot')} with them, of record {seqs}")
    for why, tally in found.kept.items():
        if tally.blobs:
            line(f"  stay: {count(tally.blobs, 'blob')} of {tally.bytes:,} bytes, {WORDS[why]}")
    if found.is_compacted:
        line("the store's file was compacted")
    elif found.gone.blobs and not found.is_dry:
        line(
            "their space is used again; to make the file smaller, run aos gc while no process runs "
            "the world"
        )
