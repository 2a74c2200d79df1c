"""``aos gc``: remove blobs that are no longer needed (spec/cli.md, C-28b)."""

from __future__ import annotations

from typing import Annotated, Final

from aos.errors import BadUsage
from aos.host.retention.gc import SNAPSHOTS_KEPT, Collected, collect_world
from aos.host.retention.marking import BASE, MANIFEST, NAMED, PUT, RECORD, SNAPSHOT
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos_cli.open_writing import current_core, patience
from aos_cli.options import DEFAULT_WORLD, Json, World, flag, number, option
from aos_cli.output import line, print_json, progress

WORDS: Final = {
    MANIFEST: "manifests and modules that were ever in force",
    SNAPSHOT: "parts of the snapshots that are kept",
    RECORD: "values that records refer to",
    NAMED: "named by a field of type hash",
    PUT: "sent to instances that have not ended, by records that were pruned",
    BASE: "needed to rebuild other blobs, which are stored as deltas",
}


def gc(
    *,
    dry_run: Annotated[
        bool, flag("--dry-run", "Show what would be removed; remove nothing.")
    ] = False,
    keep: Annotated[
        int, option("N", "Number of newest snapshots to keep.", "--keep-snapshots", parser=number)
    ] = SNAPSHOTS_KEPT,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if keep < 1:
        raise BadUsage(f"--keep-snapshots: expected 1 or more, found {keep}")
    with progress("looking for what is needed") as advance:
        collection = collect_world(
            world, keep=keep, is_dry=dry_run, core=current_core(), patience=patience(),
            progress=advance,
        )  # fmt: skip
    if json:
        print_json(_document(collection))
    else:
        _show(collection)


def _document(collection: Collected) -> dict[str, object]:
    return {
        "world": hash_text(collection.world),
        "seq": collection.seq,
        "dry_run": collection.is_dry,
        "gone": {"blobs": collection.removed.blobs, "bytes": collection.removed.bytes},
        "spared": collection.spared,
        "kept": {
            reason: {"blobs": tally.blobs, "bytes": tally.bytes}
            for reason, tally in collection.kept_by_reason.items()
        },
        "snapshots_kept": list(collection.snapshots_kept),
        "snapshots_gone": list(collection.snapshots_gone),
        "puts_gone": collection.puts_gone,
        "compacted": collection.is_compacted is True,
    }


def _show(collection: Collected) -> None:
    verb = "would go" if collection.is_dry else "taken away"
    line(
        f"{count(collection.removed.blobs, 'blob')} of {collection.removed.bytes:,} bytes {verb}",
        style="bold",
    )
    if collection.spared:
        line(f"  {count(collection.spared, 'blob')} of these were written again and are kept")
    if collection.snapshots_gone:
        seqs = ", ".join(f"{seq:,}" for seq in collection.snapshots_gone)
        line(f"  {count(len(collection.snapshots_gone), 'snapshot')} with them, of record {seqs}")
    for reason, tally in collection.kept_by_reason.items():
        if tally.blobs:
            line(f"  stay: {count(tally.blobs, 'blob')} of {tally.bytes:,} bytes, {WORDS[reason]}")
    if collection.is_compacted:
        line("the store's file was compacted")
    elif collection.removed.blobs and not collection.is_dry:
        line(
            "their space is used again; to make the file smaller, run aos gc while no process runs "
            "the world"
        )
