"""``aos export FILE``: write the world into one file (spec/cli.md, C-42)."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.host.transfer.exporting import Exported, export_world
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World, number
from aos_cli.output import line, print_json
from aos_cli.progress import progress


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Bundle file to write.")],
    *,
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="SEQ",
            parser=number,
            help="Export up to the end of the frame with this record (default: the whole journal).",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("exporting") as advance:
        made = export_world(world, file, to=to, force=force, progress=advance)
    if json:
        print_json(_document(made, to))
    else:
        _show(made, to)


def _document(made: Exported, to: int | None) -> dict[str, object]:
    return {
        "file": str(made.path),
        "world": hash_text(made.world),
        "to": to,
        "seq": made.seq,
        "frame": hash_text(made.frame),
        "frames": made.frames,
        "blobs": made.blobs,
        "erased": made.erased,
        "bytes": made.size,
    }


def _show(made: Exported, to: int | None) -> None:
    line(f"exported to record {made.seq:,}: {made.path}", style="bold")
    if to is not None and to != made.seq:
        line(f"  record {to:,} is in a frame that ends with record {made.seq:,}")
    gone = f", {count(made.erased, 'value')} erased" if made.erased else ""
    line(
        f"  {count(made.frames, 'frame')} and {count(made.blobs, 'value')}{gone}, "
        f"{made.size:,} bytes"
    )
    line(f"next: aos verify {quote(str(made.path))}")
