"""``aos adopt``: allow a world to run in its folder (spec/cli.md, C-44)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from aos.host.transfer.adopting import Adopted, adopt_world
from aos.node.batches.batch import stop_batches
from aos.node.leases.table import clear_table
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World, option
from aos_cli.output import line, print_json, progress


def adopt(
    *,
    keys: Annotated[
        Path | None,
        option("FOLDER", "Copy world.key, operator.key and executors/NAME.key from this folder."),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("reading the journal") as advance:
        adopted = adopt_world(world, keys=keys, progress=advance)
    if adopted.origin is not None:
        clear_table(adopted.folder.path)  # its leases are those of another folder
        stop_batches(adopted.folder, time.time_ns())
    if json:
        print_json(_document(adopted))
    else:
        _show(adopted)


def _document(adopted: Adopted) -> dict[str, object]:
    return {
        "world": hash_text(adopted.folder.world),
        "path": str(adopted.folder.path),
        "origin": None if adopted.origin is None else adopted.origin.value,
        "keys": list(adopted.keys),
        "seq": adopted.seq,
        "open_intents": adopted.open_intents,
    }


def _show(adopted: Adopted) -> None:
    path = adopted.folder.path
    if adopted.origin is None:
        line(f"adopted already: {path}")
    else:
        line(f"adopted: {path} continues from record {adopted.seq:,}", style="bold")
    line(f"  {hash_text(adopted.folder.world)}")
    for name in adopted.keys:
        line(f"  {path}/keys/{name} copied")
    if adopted.origin is not None and adopted.open_intents:
        line(
            f"  {count(adopted.open_intents, 'open effect')} published again when it runs: this "
            "world must run nowhere else",
            style="yellow",
        )
