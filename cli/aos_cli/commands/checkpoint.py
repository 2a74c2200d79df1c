"""``aos checkpoint``: sign the end of the header log; and ``aos checkpoint status``: how far the
checkpoints of a world reach (spec/cli.md, C-131, C-131a).
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

from aos.errors import Unavailable
from aos.host.checkpoints.attestations import Witness
from aos.host.checkpoints.checkpointing import (
    CheckpointStatus,
    MadeCheckpoint,
    checkpoint_status,
    make_checkpoint,
)
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.stored_log import cosigners
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos.values.spelling import time_text
from aos_cli.options import DEFAULT_WORLD, Json, World, flag, option
from aos_cli.output import line, note, print_json, progress

_SECOND_NS = 10**9

NONE_OUTSIDE = 1


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


def status(*, world: World = DEFAULT_WORLD, json: Json = False) -> int:
    status = checkpoint_status(world)
    if json:
        print_json(_status_document(status))
    else:
        _show_status(status)
    if status.outside is not None:
        return 0
    note(
        "aos: no checkpoint was ever kept outside of this folder, so no one could detect that the "
        "journal was rolled back or rewritten (aos checkpoint --out FILE, and keep FILE where this "
        "machine cannot change it; or aos checkpoint --witness URL=VKEY)",
        style="yellow",
    )
    return NONE_OUTSIDE


def _status_document(status: CheckpointStatus) -> dict[str, object]:
    latest, outside = status.latest, status.outside
    return {
        "world": hash_text(status.world),
        "frames": status.head.frames,
        "seq": status.head.seq,
        "latest": None
        if latest is None
        else {
            **_position_document(status, latest.checkpoint, latest.seq),
            "path": str(latest.path),
            "witnesses": _witnesses(cosigners(latest.note)),
            "timestamp": latest.is_stamped,
        },
        "outside": None
        if outside is None
        else {
            **_position_document(status, outside.checkpoint, outside.seq),
            "file": outside.file,
            "time": time_text(outside.time * _SECOND_NS),
            "witnesses": _witnesses(outside.cosigned),
        },
    }


def _position_document(
    status: CheckpointStatus, checkpoint: Checkpoint, seq: int
) -> dict[str, object]:
    return {
        "frames": checkpoint.size,
        "seq": seq,
        "root": base64.b64encode(checkpoint.root).decode(),
        "frames_since": status.head.frames - checkpoint.size,
        "records_since": status.head.seq - seq,
    }


def _witnesses(cosigned: tuple[tuple[str, int], ...]) -> list[dict[str, object]]:
    return [{"name": name, "time": time} for name, time in cosigned]


def _show_status(status: CheckpointStatus) -> None:
    head, latest, outside = status.head, status.latest, status.outside
    frames = count(head.frames, "frame")
    line(f"journal: {frames}, to record {head.seq:,}", style="bold")
    if latest is None:
        line("last checkpoint: none")
    else:
        line(f"last checkpoint: {_reach(status, latest.checkpoint, latest.seq)}: {latest.path}")
        _show_cosigned(cosigners(latest.note))
        if latest.is_stamped:
            line("  with a time-stamp")
    if outside is None:
        line("kept outside of this folder: none")
        return
    line(f"kept outside of this folder: {_reach(status, outside.checkpoint, outside.seq)}")
    if outside.file is not None:
        line(f"  in {outside.file}, written at {time_text(outside.time * _SECOND_NS)}")
    _show_cosigned(outside.cosigned)


def _reach(status: CheckpointStatus, checkpoint: Checkpoint, seq: int) -> str:
    since = status.head.seq - seq
    frames = count(checkpoint.size, "frame")
    return f"{frames}, to record {seq:,}, {count(since, 'record')} written since"


def _show_cosigned(cosigned: tuple[tuple[str, int], ...]) -> None:
    for name, time in cosigned:
        line(f"  cosigned by {name} at {time_text(time * _SECOND_NS)}")
