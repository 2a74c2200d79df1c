"""``aos snapshot``: save the world's state, so that earlier records need not be read (C-29)."""

from __future__ import annotations

from pathlib import Path

from aos.read.lens.words import count
from aos.read.views.record_view import Document
from aos.values.digests import hash_text
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, client_of
from aos_cli.output import line, print_json


def snapshot(*, world: World = DEFAULT_WORLD, node: NodeUrl = None, json: Json = False) -> None:
    report = _take_snapshot(world, node)
    if json:
        print_json(report)
        return
    line(
        f"snapshot of the world after record {report['at']:,}: {count(report['cells'], 'cell')}, "
        f"{count(report['blobs'], 'blob')} of {report['bytes']:,} bytes written in "
        f"{report['took_ns'] / 1e9:.2f} s"
    )
    line(f"  {report['document']}, record {report['seq']:,}")


def _take_snapshot(world: Path, node: str | None) -> Document:
    if node is not None:
        with client_of(node) as client:
            return client.snapshot()
    with writing_to(world) as writer:
        made_snapshot = writer.snapshot()
    return {**made_snapshot.to_message(), "document": hash_text(made_snapshot.document)}
