"""``aos rebuild``: write the derived rows of a world again (spec/cli.md, C-41b)."""

from __future__ import annotations

from dataclasses import asdict

from aos.audit.lens.words import count
from aos.host.retention.rebuilding import rebuild_world
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, print_json
from aos_cli.progress import progress


def rebuild(*, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    with progress("verifying") as advance:
        found = rebuild_world(world, on_progress=lambda seq: advance(seq, 0))
    if json:
        print_json({**asdict(found), "world": hash_text(found.world)})
        return
    changed = sum(found.changed.values())
    rows = count(sum(found.rows.values()), "derived row")
    line(
        f"rebuild: {rows} of the journal to record {found.seq:,}, {changed:,} changed",
        style="bold green",
    )
    for table, number in found.changed.items():
        if number:
            line(f"  {table}: {number:,} of {found.rows[table]:,}")
