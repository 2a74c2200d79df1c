"""``aos import FILE DIR``: create a world from a bundle (spec/cli.md, C-43)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from aos.host.transfer.importing import Imported, import_world
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Json, NewWorld, argument
from aos_cli.output import line, print_json, progress


def import_(
    file: Annotated[Path, argument("FILE", "Bundle file, written by aos export.")],
    directory: NewWorld,
    *,
    json: Json = False,
) -> None:
    with progress("importing") as advance:
        new_world = import_world(file, directory, progress=advance)
    if json:
        print_json(_document(new_world))
    else:
        _show(new_world)


def _document(new_world: Imported) -> dict[str, object]:
    return {
        "world": hash_text(new_world.folder.world),
        "path": str(new_world.folder.path),
        "seq": new_world.seq,
        "frames": new_world.frames,
        "blobs": new_world.blobs,
        "open_intents": new_world.open_intents,
    }


def _show(new_world: Imported) -> None:
    shell_path = shell_word(new_world.folder.path)
    line(f"imported to record {new_world.seq:,} into {new_world.folder.path}", style="bold")
    line(f"  {hash_text(new_world.folder.world)}")
    line(f"  {count(new_world.frames, 'frame')} and {count(new_world.blobs, 'value')}")
    if new_world.open_intents:
        line(f"  {count(new_world.open_intents, 'effect')} open")
    line(f"next: aos verify --world {shell_path}")
    line(f"to run it here, and nowhere else: aos adopt --world {shell_path} --keys FOLDER")
