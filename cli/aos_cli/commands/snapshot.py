"""``aos snapshot``: save the world's state, so that earlier records need not be read (C-29)."""

from __future__ import annotations

from aos.audit.lens.words import count
from aos.values.digests import hash_text
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, print_json


def snapshot(*, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    with writing_to(world) as writer:
        made = writer.snapshot()
    if json:
        print_json({**made.to_message(), "document": hash_text(made.document)})
        return
    line(
        f"snapshot of the world after record {made.at:,}: {count(made.cells, 'cell')}, "
        f"{count(made.blobs, 'blob')} of {made.bytes:,} bytes written in {made.took_ns / 1e9:.2f} s"
    )
    line(f"  {hash_text(made.document)}, record {made.seq:,}")
