"""``aos rebuild``: write the derived rows of a world again (spec/cli.md, C-41b)."""

from __future__ import annotations

from dataclasses import asdict

from aos.host.retention.rebuilding import rebuild_world
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, print_json, progress


def rebuild(*, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    with progress("verifying") as advance:
        rebuilt_rows = rebuild_world(world, on_progress=lambda seq: advance(seq, 0))
    if json:
        print_json({**asdict(rebuilt_rows), "world": hash_text(rebuilt_rows.world)})
        return
    changed = sum(rebuilt_rows.changed.values())
    rows = count(sum(rebuilt_rows.rows.values()), "derived row")
    line(
        f"rebuild: {rows} of the journal to record {rebuilt_rows.seq:,}, {changed:,} changed",
        style="bold green",
    )
    for table, number in rebuilt_rows.changed.items():
        if number:
            line(f"  {table}: {number:,} of {rebuilt_rows.rows[table]:,}")
