"""``aos checkpoint``: sign the end of the header log (spec/cli.md, C-131)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

from aos.errors import Unavailable
from aos.host.checkpoints.attestations import Witness
from aos.host.checkpoints.checkpointing import MadeCheckpoint, make_checkpoint
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos.values.spelling import time_text
from aos_cli.options import DEFAULT_WORLD, Json, World, flag, option
from aos_cli.output import line, note, print_json, progress

_SECOND_NS = 10**9


def checkpoint(
    *,
    out: Annotated[
        Path | None, option("FILE", "Also write the checkpoint to this file, to keep it elsewhere.")
    ] = None,
    witness: Annotated[
        list[str] | None,
        option(
            "URL=VKEY",
            "Have a witness cosign: its address and verifier key. May be given several times.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None, option("URL", "Have the checkpoint time-stamped by this server (RFC 3161).")
    ] = None,
    archive: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Archive of pruned records, to write a lost log again. May be given several times.",
        ),
    ] = None,
    rebuild: Annotated[bool, flag("--rebuild", "Write all tiles again from the journal.")] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    witnesses = [Witness.of(spec) for spec in witness or ()]
    with progress("extending the header log") as advance:
        made_checkpoint = make_checkpoint(
            world,
            out=out,
            witnesses=witnesses,
            timestamp=timestamp,
            archives=archive or (),
            rebuild=rebuild,
            progress=advance,
        )
    if json:
        print_json(_document(made_checkpoint, out))
    else:
        _show(made_checkpoint, out)
    for failure in made_checkpoint.failed:
        note(f"aos: {failure}", style="red")
    return Unavailable.exit_code if made_checkpoint.failed else 0


def _document(made_checkpoint: MadeCheckpoint, out: Path | None) -> dict[str, object]:
    return {
        "world": hash_text(made_checkpoint.world),
        "key": made_checkpoint.key.text,
        "frames": made_checkpoint.checkpoint.size,
        "added": made_checkpoint.added,
        "seq": made_checkpoint.seq,
        "root": base64.b64encode(made_checkpoint.checkpoint.root).decode(),
        "path": str(made_checkpoint.path),
        "out": None if out is None else str(out),
        "witnesses": [{"name": name, "time": time} for name, time in made_checkpoint.cosigned],
        "timestamp": made_checkpoint.timestamp is not None,
        "failed": list(made_checkpoint.failed),
    }


def _show(made_checkpoint: MadeCheckpoint, out: Path | None) -> None:
    frames = (
        f"{count(made_checkpoint.checkpoint.size, 'frame')}, {made_checkpoint.added:,} of them new"
    )
    line(
        f"checkpoint to record {made_checkpoint.seq:,}: {out or made_checkpoint.path}", style="bold"
    )
    line(f"  {frames}, root {base64.b64encode(made_checkpoint.checkpoint.root).decode()}")
    for name, time in made_checkpoint.cosigned:
        line(f"  cosigned by {name} at {time_text(time * _SECOND_NS)}")
    if made_checkpoint.timestamp is not None:
        line("  with a time-stamp")
    line(f"  key of the log, for witnesses: {made_checkpoint.key.text}")
    if out is None:
        line("next: aos checkpoint --out FILE, and keep FILE where this machine cannot change it")
    else:
        line(f"next: aos verify --checkpoint {shell_word(out)}")
