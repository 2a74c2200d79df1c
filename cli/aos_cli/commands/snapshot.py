"""``aos snapshot``: save the world's state, so that earlier records need not be read (C-29)."""

from __future__ import annotations

from pathlib import Path

from aos.audit.lens.words import count
from aos.audit.views.record_view import Document
from aos.values.digests import hash_text
from aos_cli.node_option import NodeUrl, client_of
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, print_json


def snapshot(*, world: World = DEFAULT_WORLD, node: NodeUrl = None, json: Json = False) -> None:
    made = _made(world, node)
    if json:
        print_json(made)
        return
    line(
        f"snapshot of the world after record {made['at']:,}: {count(made['cells'], 'cell')}, "
        f"{count(made['blobs'], 'blob')} of {made['bytes']:,} bytes written in "
        f"{made['took_ns'] / 1e9:.2f} s"
    )
    line(f"  {made['document']}, record {made['seq']:,}")


def _made(world: Path, node: str | None) -> Document:
    if node is not None:
        with client_of(node) as client:
            return client.snapshot()
    with writing_to(world) as writer:
        found = writer.snapshot()
    return {**found.to_message(), "document": hash_text(found.document)}
