"""``aos import FILE DIR``: create a world from a bundle (spec/cli.md, C-43)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.host.transfer.importing import Imported, import_world
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Json, NewWorld
from aos_cli.output import line, print_json
from aos_cli.progress import progress


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Bundle file, written by aos export.")
    ],
    directory: NewWorld,
    *,
    json: Json = False,
) -> None:
    with progress("importing") as advance:
        made = import_world(file, directory, progress=advance)
    if json:
        print_json(_document(made))
    else:
        _show(made)


def _document(made: Imported) -> dict[str, object]:
    return {
        "world": hash_text(made.folder.world),
        "path": str(made.folder.path),
        "seq": made.seq,
        "frames": made.frames,
        "blobs": made.blobs,
        "open_intents": made.open_intents,
    }


def _show(made: Imported) -> None:
    where = shell_word(made.folder.path)
    line(f"imported to record {made.seq:,} into {made.folder.path}", style="bold")
    line(f"  {hash_text(made.folder.world)}")
    line(f"  {count(made.frames, 'frame')} and {count(made.blobs, 'value')}")
    if made.open_intents:
        line(f"  {count(made.open_intents, 'effect')} open")
    line(f"next: aos verify --world {where}")
    line(f"to run it here, and nowhere else: aos adopt --world {where} --keys FOLDER")
