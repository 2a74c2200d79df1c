"""``aos checkpoint status``: how far the checkpoints of a world reach (spec/cli.md, C-131a)."""

from __future__ import annotations

import base64

from aos.host.checkpoints.checkpointing import CheckpointStatus, checkpoint_status
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.stored_log import cosigners
from aos.read.lens.words import count
from aos.values.digests import hash_text
from aos.values.spelling import time_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json

NONE_OUTSIDE = 1
_SECOND_NS = 10**9


def status(*, world: World = DEFAULT_WORLD, json: Json = False) -> int:
    status = checkpoint_status(world)
    if json:
        print_json(_document(status))
    else:
        _show(status)
    if status.outside is not None:
        return 0
    note(
        "aos: no checkpoint was ever kept outside of this folder, so no one could detect that the "
        "journal was rolled back or rewritten (aos checkpoint --out FILE, and keep FILE where this "
        "machine cannot change it; or aos checkpoint --witness URL=VKEY)",
        style="yellow",
    )
    return NONE_OUTSIDE


def _document(status: CheckpointStatus) -> dict[str, object]:
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


def _show(status: CheckpointStatus) -> None:
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
